#include "lb_unary_f32.h"

lb_silu_f32_fn lb_silu_f32__ref;

LB_UNARY_F32(silu_f32, lb_siluf(v))
