#include "lb_unary_f32_avx2.h"

lb_hardsigmoid_f32_fn lb_hardsigmoid_f32__avx2;

LB_UNARY_F32(hardsigmoid_f32, lb_hardsigmoid_ps(v, alpha, beta))
