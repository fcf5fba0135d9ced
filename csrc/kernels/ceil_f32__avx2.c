#include "lb_unary_f32_avx2.h"

lb_ceil_f32_fn lb_ceil_f32__avx2;

LB_UNARY_F32(ceil_f32, lb_ceil_ps(v))
