#include "lb_unary_f32_avx2.h"

lb_silu_f32_fn lb_silu_f32__avx2;

LB_UNARY_F32(silu_f32, lb_silu_ps(v))
