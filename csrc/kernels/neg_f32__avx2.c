#include "lb_f32_avx2.h"

#include "lb_unary_f32_simd.h"

lb_neg_f32_fn lb_neg_f32__avx2;

LB_UNARY_F32(neg_f32, lb_v_neg(v))
