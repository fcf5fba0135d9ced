#include "lb_unary_f32.h"

lb_ceil_f32_fn lb_ceil_f32__ref;

LB_UNARY_F32(ceil_f32, lb_ceilf(v))
