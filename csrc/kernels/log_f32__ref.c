#include "lb_unary_f32.h"

lb_log_f32_fn lb_log_f32__ref;

LB_UNARY_F32(log_f32, lb_logf(v))
