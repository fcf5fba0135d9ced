#include "lb_unary_f32.h"

lb_reciprocal_f32_fn lb_reciprocal_f32__ref;

LB_UNARY_F32(reciprocal_f32, 1.0f / v)
