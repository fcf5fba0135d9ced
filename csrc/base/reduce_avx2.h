/* Sums and maxima over the eight lanes of a vector: lanes 4 apart first, then 2, then 1. */
#ifndef LB_REDUCE_AVX2_H
#define LB_REDUCE_AVX2_H

#include "base/unroll.h"

#include <immintrin.h>
#include <stdint.h>

LB_INLINE float lb_reduce_add8(__m256 v) {
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_shuffle_ps(four, four, 1)));
}

/* No lane is NaN. */
LB_INLINE float lb_reduce_max8(__m256 v) {
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_shuffle_ps(four, four, 1)));
}

LB_INLINE int32_t lb_reduce_max8_s32(__m256i v) {
    __m128i four = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    return _mm_cvtsi128_si32(_mm_max_epi32(four, _mm_shuffle_epi32(four, 0xB1)));
}

#endif
