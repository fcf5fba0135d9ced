#include "lb_f32_avx2.h"

#include "lb_unary_f32_simd.h"

lb_exp_f32_fn lb_exp_f32__avx2;

LB_UNARY_F32(exp_f32, LB_V(exp)(v))
