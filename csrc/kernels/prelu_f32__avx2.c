#include "lb_binary_f32_avx2.h"

static inline __m256 of(__m256 a, __m256 b) {
    return _mm256_blendv_ps(_mm256_mul_ps(a, b), a, _mm256_cmp_ps(a, _mm256_setzero_ps(), _CMP_GE_OQ));
}

lb_prelu_f32_fn lb_prelu_f32__avx2;

LB_BINARY_F32(prelu_f32)
