#include "lb_unary_f32.h"

lb_neg_f32_fn lb_neg_f32__ref;

LB_UNARY_F32(neg_f32, -v)
