#include "lb_unary_f32.h"

lb_sqrt_f32_fn lb_sqrt_f32__ref;

LB_UNARY_F32(sqrt_f32, lb_sqrtf(v))
