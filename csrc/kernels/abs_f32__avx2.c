#include "lb_f32_avx2.h"

#include "lb_unary_f32_simd.h"

lb_abs_f32_fn lb_abs_f32__avx2;

LB_UNARY_F32(abs_f32, LB_V(abs)(v))
