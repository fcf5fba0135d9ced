#include "lb_unary_f32.h"

lb_mish_f32_fn lb_mish_f32__ref;

LB_UNARY_F32(mish_f32, lb_mishf(v))
