#include "lb_unary_f32.h"

lb_tanh_f32_fn lb_tanh_f32__ref;

LB_UNARY_F32(tanh_f32, lb_tanhf(v))
