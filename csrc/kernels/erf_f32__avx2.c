#include "lb_f32_avx2.h"

#include "lb_unary_f32_simd.h"

lb_erf_f32_fn lb_erf_f32__avx2;

LB_UNARY_F32(erf_f32, LB_V(erf)(v))
