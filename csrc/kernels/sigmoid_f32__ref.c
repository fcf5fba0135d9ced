#include "lb_unary_f32.h"

lb_sigmoid_f32_fn lb_sigmoid_f32__ref;

LB_UNARY_F32(sigmoid_f32, lb_sigmoidf(v))
