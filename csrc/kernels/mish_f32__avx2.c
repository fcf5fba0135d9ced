#include "lb_unary_f32_avx2.h"

lb_mish_f32_fn lb_mish_f32__avx2;

LB_UNARY_F32(mish_f32, lb_mish_ps(v))
