#include "lb_unary_f32_avx2.h"

lb_gelu_tanh_f32_fn lb_gelu_tanh_f32__avx2;

LB_UNARY_F32(gelu_tanh_f32, lb_gelu_tanh_ps(v))
