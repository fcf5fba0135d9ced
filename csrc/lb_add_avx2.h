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

/* Whether all sums are far below 2^31, and none is NaN. */
static inline int lb_add_is_small(float ma, float mb, float offset) {
    return 128.0f * ((ma < 0 ? -ma : ma) + (mb < 0 ? -mb : mb)) + (offset < 0 ? -offset : offset) < 1e9f;
}

/* Eight sums that are small, rounded. */
static inline __m256i lb_small_add8(const int8_t *a, const int8_t *b, const lb_add16_terms *t) {
    const __m128i x = _mm_loadl_epi64((const __m128i *)(const void *)a), y = _mm_loadl_epi64((const __m128i *)(const void *)b);
    const __m256 left = _mm256_add_ps(_mm256_mul_ps(lb_float8(x), t->ma), t->offset);
    return _mm256_cvtps_epi32(_mm256_add_ps(left, _mm256_mul_ps(lb_float8(y), t->mb)));
}

/* lb_add16 of 32 neighbours whose sums are small. Packing works within 128 bits, so the dwords are put right at the end. */
static inline __m256i lb_small_add32(const int8_t *a, const int8_t *b, const lb_add16_terms *t) {
    const __m256i low = _mm256_packs_epi32(lb_small_add8(a, b, t), lb_small_add8(a + 8, b + 8, t));
    const __m256i high = _mm256_packs_epi32(lb_small_add8(a + 16, b + 16, t), lb_small_add8(a + 24, b + 24, t));
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    return _mm256_min_epi8(_mm256_max_epi8(bytes, _mm256_broadcastsi128_si256(t->clamp.lo)), _mm256_broadcastsi128_si256(t->clamp.hi));
}

#endif
