#include "lb_unary_f32_avx2.h"

lb_tanh_f32_fn lb_tanh_f32__avx2;

LB_UNARY_F32(tanh_f32, lb_tanh_ps(v))
