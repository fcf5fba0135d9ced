#include "lb_f32_avx512.h"

#include "lb_unary_f32_simd.h"

lb_ceil_f32_fn lb_ceil_f32__avx512;

LB_UNARY_F32(ceil_f32, LB_V(ceil)(v))
