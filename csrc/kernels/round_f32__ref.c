#include "lb_unary_f32.h"

lb_round_f32_fn lb_round_f32__ref;

LB_UNARY_F32(round_f32, lb_roundf(v))
