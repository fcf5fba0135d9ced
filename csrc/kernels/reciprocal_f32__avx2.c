#include "lb_unary_f32_avx2.h"

lb_reciprocal_f32_fn lb_reciprocal_f32__avx2;

LB_UNARY_F32(reciprocal_f32, _mm256_div_ps(_mm256_set1_ps(1.0f), v))
