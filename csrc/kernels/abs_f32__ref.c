#include "lb_unary_f32.h"

lb_abs_f32_fn lb_abs_f32__ref;

LB_UNARY_F32(abs_f32, lb_absf(v))
