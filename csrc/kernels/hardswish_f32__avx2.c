#include "lb_unary_f32_avx2.h"

lb_hardswish_f32_fn lb_hardswish_f32__avx2;

LB_UNARY_F32(hardswish_f32, lb_hardswish_ps(v))
