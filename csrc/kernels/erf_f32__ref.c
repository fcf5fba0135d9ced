#include "lb_unary_f32.h"

lb_erf_f32_fn lb_erf_f32__ref;

LB_UNARY_F32(erf_f32, lb_erff(v))
