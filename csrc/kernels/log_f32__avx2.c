#include "lb_unary_f32_avx2.h"

lb_log_f32_fn lb_log_f32__avx2;

LB_UNARY_F32(log_f32, lb_log_ps(v))
