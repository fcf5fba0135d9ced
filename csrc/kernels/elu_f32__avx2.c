#include "lb_unary_f32_avx2.h"

lb_elu_f32_fn lb_elu_f32__avx2;

LB_UNARY_F32(elu_f32, lb_elu_ps(v, alpha))
