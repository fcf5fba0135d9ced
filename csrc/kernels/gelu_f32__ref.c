#include "lb_unary_f32.h"

lb_gelu_f32_fn lb_gelu_f32__ref;

LB_UNARY_F32(gelu_f32, lb_geluf(v))
