#include "lb_unary_f32.h"

lb_leaky_relu_f32_fn lb_leaky_relu_f32__ref;

LB_UNARY_F32(leaky_relu_f32, lb_leaky_reluf(v, alpha))
