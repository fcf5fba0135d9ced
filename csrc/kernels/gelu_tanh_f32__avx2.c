#include "lb_f32_avx2.h"

#include "lb_unary_f32_simd.h"

lb_gelu_tanh_f32_fn lb_gelu_tanh_f32__avx2;

LB_UNARY_F32(gelu_tanh_f32, LB_V(gelu_tanh)(v))
