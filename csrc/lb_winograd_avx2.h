/* What convolutions by Winograd's tiles share: six inputs in a row at the points 0, 1, -1, 2, -2 and infinity, and outputs of six points.
 */
#ifndef LB_WINOGRAD_AVX2_H
#define LB_WINOGRAD_AVX2_H

#include "lb_unroll.h"

#include <immintrin.h>
#include <stddef.h>

/* B' of six vectors of int16, `step` apart. */
LB_INLINE void lb_winograd_input(const __m256i *d, int step, __m256i *o, int to) {
    const __m256i five = _mm256_set1_epi16(5), d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step],
                  d5 = d[5 * step];
    o[0] = _mm256_add_epi16(_mm256_sub_epi16(_mm256_slli_epi16(d0, 2), _mm256_mullo_epi16(d2, five)), d4);
    o[5 * to] = _mm256_add_epi16(_mm256_sub_epi16(_mm256_slli_epi16(d1, 2), _mm256_mullo_epi16(d3, five)), d5);
    const __m256i a = _mm256_sub_epi16(d4, _mm256_slli_epi16(d2, 2)), b = _mm256_sub_epi16(d3, _mm256_slli_epi16(d1, 2));
    o[to] = _mm256_add_epi16(a, b);
    o[2 * to] = _mm256_sub_epi16(a, b);
    const __m256i c = _mm256_sub_epi16(d4, d2), e = _mm256_slli_epi16(_mm256_sub_epi16(d3, d1), 1);
    o[3 * to] = _mm256_add_epi16(c, e);
    o[4 * to] = _mm256_sub_epi16(c, e);
}

/* A' of six vectors of int32, `step` apart, for `size` outputs (3 or 4), times 24. What is at infinity belongs to the last of them. */
LB_INLINE void lb_winograd_output(const int size, const __m256i *m, ptrdiff_t step, __m256i *o, int to) {
    const __m256i m0 = m[0], m5 = m[5 * step];
    const __m256i s = _mm256_add_epi32(m[step], m[2 * step]), d = _mm256_sub_epi32(m[step], m[2 * step]);
    const __m256i t = _mm256_add_epi32(m[3 * step], m[4 * step]), e = _mm256_sub_epi32(m[3 * step], m[4 * step]);
    const __m256i s4 = _mm256_slli_epi32(s, 2), d4 = _mm256_slli_epi32(d, 2);
    const __m256i six = _mm256_add_epi32(_mm256_slli_epi32(m0, 2), _mm256_slli_epi32(m0, 1));
    const __m256i last = _mm256_add_epi32(_mm256_slli_epi32(m5, 4), _mm256_slli_epi32(m5, 3));
    o[0] = _mm256_add_epi32(_mm256_add_epi32(six, s4), t);
    o[to] = _mm256_add_epi32(d4, _mm256_slli_epi32(e, 1));
    const __m256i third = _mm256_add_epi32(s4, _mm256_slli_epi32(t, 2));
    o[2 * to] = size == 4 ? third : _mm256_add_epi32(third, last);
    if (size == 4)
        o[3 * to] = _mm256_add_epi32(_mm256_add_epi32(d4, _mm256_slli_epi32(e, 3)), last);
}

#endif
