#include "lb_unary_f32_avx2.h"

lb_exp_f32_fn lb_exp_f32__avx2;

LB_UNARY_F32(exp_f32, lb_exp_ps(v))
