/* Recurrent products of 16-bit states on AVX2. A state is halved, h = 256 u + l with 0 <= l < 256: sums of two products are then within
 * 2^24 whatever the weights are, and 64 of them within int32, after which they go on in int64. */
#ifndef LB_RNN_S16_AVX2_H
#define LB_RNN_S16_AVX2_H

#include "lb_unroll.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LB_OWN_SUMS

typedef int16_t lb_hidden, lb_weight;
typedef int64_t lb_sum;

enum { LB_S16_STEP = 16, LB_S16_CHUNK = 64 * LB_S16_STEP };

/* The sum of eight int32. */
LB_INLINE int64_t lb_total(__m256i v) {
    const __m256i two =
        _mm256_add_epi64(_mm256_cvtepi32_epi64(_mm256_castsi256_si128(v)), _mm256_cvtepi32_epi64(_mm256_extracti128_si256(v, 1)));
    const __m128i one = _mm_add_epi64(_mm256_castsi256_si128(two), _mm256_extracti128_si256(two, 1));
    return _mm_cvtsi128_si64(one) + _mm_extract_epi64(one, 1);
}

/* The next of `left` words, zeros behind them. */
LB_INLINE __m256i lb_words(const int16_t *from, int32_t left) {
    __m256i v = _mm256_setzero_si256();
    if (left >= LB_S16_STEP)
        return _mm256_loadu_si256((const __m256i *)(const void *)from);
    memcpy(&v, from, 2 * (size_t)left);
    return v;
}

/* For `rows` rows of weights, `step` apart: the sum of (h - h_zero) * r over k units. */
LB_INLINE void lb_wide_sums(const int rows, int64_t *sums, const int16_t *h, const int16_t *r, ptrdiff_t step, int32_t k, int32_t h_zero) {
    const __m256i low = _mm256_set1_epi16(255), ones = _mm256_set1_epi16(1);
    LB_UNROLL
    for (int i = 0; i < rows; i++)
        sums[i] = 0;
    for (int32_t first = 0; first < k; first += LB_S16_CHUNK) {
        const int32_t end = k - first < LB_S16_CHUNK ? k : first + LB_S16_CHUNK;
        __m256i above[4], below[4], weights[4];
        LB_UNROLL
        for (int i = 0; i < rows; i++)
            above[i] = below[i] = weights[i] = _mm256_setzero_si256();
        for (int32_t at = first; at < end; at += LB_S16_STEP) {
            const __m256i v = lb_words(h + at, end - at), u = _mm256_srai_epi16(v, 8), l = _mm256_and_si256(v, low);
            LB_UNROLL
            for (int i = 0; i < rows; i++) {
                const __m256i w = lb_words(r + i * step + at, end - at);
                above[i] = _mm256_add_epi32(above[i], _mm256_madd_epi16(u, w));
                below[i] = _mm256_add_epi32(below[i], _mm256_madd_epi16(l, w));
                if (h_zero)
                    weights[i] = _mm256_add_epi32(weights[i], _mm256_madd_epi16(w, ones));
            }
        }
        LB_UNROLL
        for (int i = 0; i < rows; i++)
            sums[i] += 256 * lb_total(above[i]) + lb_total(below[i]) - h_zero * lb_total(weights[i]);
    }
}

static inline int64_t lb_recurrent(const int16_t *h, const int16_t *r, int32_t k, int32_t h_zero) {
    int64_t sum;
    lb_wide_sums(1, &sum, h, r, 0, k, h_zero);
    return sum;
}

static inline void lb_four_gates(int64_t sums[4], const int16_t *h, const int16_t *r, ptrdiff_t step, int32_t k, int32_t h_zero) {
    lb_wide_sums(4, sums, h, r, step, k, h_zero);
}

#endif
