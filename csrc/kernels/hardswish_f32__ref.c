#include "lb_unary_f32.h"

lb_hardswish_f32_fn lb_hardswish_f32__ref;

LB_UNARY_F32(hardswish_f32, lb_hardswishf(v))
