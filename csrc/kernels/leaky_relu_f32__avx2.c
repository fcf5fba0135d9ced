#include "lb_f32_avx2.h"

#include "lb_unary_f32_simd.h"

lb_leaky_relu_f32_fn lb_leaky_relu_f32__avx2;

LB_UNARY_F32(leaky_relu_f32, LB_V(leaky_relu)(v, alpha))
