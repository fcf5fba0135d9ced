/* lb_add on vector units: sums of 16 bytes a side, rounded and clamped. */
#ifndef LB_ADD_AVX2_H
#define LB_ADD_AVX2_H

#include "lb_requantize_avx2.h"

typedef struct {
    __m256 ma, mb, offset;
    lb_clamp16 clamp;
} lb_add16_terms;

static inline lb_add16_terms lb_add16_of(float ma, float mb, float offset, int32_t lo, int32_t hi) {
    return (lb_add16_terms){_mm256_set1_ps(ma), _mm256_set1_ps(mb), _mm256_set1_ps(offset), lb_clamp16_of(0, lo, hi)};
}

static inline __m256 lb_float8(__m128i bytes) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}

/* A sum of infinities of different signs is NaN, which counts as 0. */
static inline __m256 lb_add8(__m128i a, __m128i b, const lb_add16_terms *t) {
    const __m256 left = _mm256_add_ps(_mm256_mul_ps(lb_float8(a), t->ma), t->offset);
    const __m256 sum = _mm256_add_ps(left, _mm256_mul_ps(lb_float8(b), t->mb));
    return _mm256_and_ps(sum, _mm256_cmp_ps(sum, sum, _CMP_ORD_Q));
}

static inline __m128i lb_add16(__m128i a, __m128i b, const lb_add16_terms *t) {
    return lb_round16(lb_add8(a, b, t), lb_add8(_mm_unpackhi_epi64(a, a), _mm_unpackhi_epi64(b, b), t), &t->clamp);
}

#endif
