#include "lb_f32_avx512.h"

#include "lb_unary_f32_simd.h"

lb_tanh_f32_fn lb_tanh_f32__avx512;

LB_UNARY_F32(tanh_f32, LB_V(tanh)(v))
