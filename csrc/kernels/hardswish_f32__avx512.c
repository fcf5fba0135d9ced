#include "lb_f32_avx512.h"

#include "lb_unary_f32_simd.h"

lb_hardswish_f32_fn lb_hardswish_f32__avx512;

LB_UNARY_F32(hardswish_f32, LB_V(hardswish)(v))
