#include "lb_unary_f32.h"

lb_hardsigmoid_f32_fn lb_hardsigmoid_f32__ref;

LB_UNARY_F32(hardsigmoid_f32, lb_hardsigmoidf(v, alpha, beta))
