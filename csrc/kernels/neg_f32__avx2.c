#include "lb_unary_f32_avx2.h"

lb_neg_f32_fn lb_neg_f32__avx2;

LB_UNARY_F32(neg_f32, _mm256_xor_ps(v, _mm256_set1_ps(-0.0f)))
