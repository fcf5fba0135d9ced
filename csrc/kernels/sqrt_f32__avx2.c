#include "lb_unary_f32_avx2.h"

lb_sqrt_f32_fn lb_sqrt_f32__avx2;

LB_UNARY_F32(sqrt_f32, _mm256_sqrt_ps(v))
