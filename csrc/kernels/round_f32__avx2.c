#include "lb_f32_avx2.h"

#include "lb_unary_f32_simd.h"

lb_round_f32_fn lb_round_f32__avx2;

LB_UNARY_F32(round_f32, LB_V(round)(v))
