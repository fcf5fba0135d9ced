#include "lb_unary_f32.h"

lb_softplus_f32_fn lb_softplus_f32__ref;

LB_UNARY_F32(softplus_f32, lb_softplusf(v))
