#include "lb_unary_f32_avx2.h"

lb_floor_f32_fn lb_floor_f32__avx2;

LB_UNARY_F32(floor_f32, lb_floor_ps(v))
