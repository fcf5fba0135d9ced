#include "lb_f32_avx512.h"

#include "lb_unary_f32_simd.h"

lb_reciprocal_f32_fn lb_reciprocal_f32__avx512;

LB_UNARY_F32(reciprocal_f32, lb_v_div(lb_v_all(1.0f), v))
