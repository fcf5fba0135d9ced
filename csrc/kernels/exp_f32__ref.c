#include "lb_unary_f32.h"

lb_exp_f32_fn lb_exp_f32__ref;

LB_UNARY_F32(exp_f32, lb_expf(v))
