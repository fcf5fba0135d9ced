#include "lb_unary_f32.h"

lb_elu_f32_fn lb_elu_f32__ref;

LB_UNARY_F32(elu_f32, lb_eluf(v, alpha))
