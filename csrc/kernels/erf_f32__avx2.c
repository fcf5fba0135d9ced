#include "lb_unary_f32_avx2.h"

lb_erf_f32_fn lb_erf_f32__avx2;

LB_UNARY_F32(erf_f32, lb_erf_ps(v))
