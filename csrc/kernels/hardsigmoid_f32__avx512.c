#include "lb_f32_avx512.h"

#include "lb_unary_f32_simd.h"

lb_hardsigmoid_f32_fn lb_hardsigmoid_f32__avx512;

LB_UNARY_F32(hardsigmoid_f32, LB_V(hardsigmoid)(v, alpha, beta))
