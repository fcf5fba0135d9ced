#include "lb_unary_f32_avx2.h"

lb_softplus_f32_fn lb_softplus_f32__avx2;

LB_UNARY_F32(softplus_f32, lb_softplus_ps(v))
