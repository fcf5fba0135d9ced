#include "lb_unary_f32.h"

lb_floor_f32_fn lb_floor_f32__ref;

LB_UNARY_F32(floor_f32, lb_floorf(v))
