/* What convolutions by Winograd's tiles share: six inputs in a row at the points 0, 1, -1, 2, -2 and infinity, and outputs of six points.
 */
#ifndef LB_WINOGRAD_AVX2_H
#define LB_WINOGRAD_AVX2_H

#include "base/unroll.h"

#include <immintrin.h>
#include <stddef.h>

/* B' of six vectors of int16, `step` apart: the rows (4 0 -5 0 1 0) (0 -4 -4 1 1 0) (0 4 -4 -1 1 0) (0 -2 -1 2 1 0) (0 2 -1 -2 1 0)
 * (0 4 0 -5 0 1). They sum up to 0 but for the second, whose sum is -6: a zero point is seen at (1, 1) only. */
LB_INLINE void lb_winograd_input(const __m256i *d, int step, __m256i *o, int to) {
    const __m256i d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step], d5 = d[5 * step];
    const __m256i a = _mm256_sub_epi16(d4, _mm256_slli_epi16(d2, 2)), b = _mm256_sub_epi16(d3, _mm256_slli_epi16(d1, 2));
    const __m256i c = _mm256_sub_epi16(d4, d2), f = _mm256_sub_epi16(d3, d1), e = _mm256_add_epi16(f, f);
    o[0] = _mm256_add_epi16(_mm256_slli_epi16(_mm256_sub_epi16(d0, d2), 2), c);
    o[to] = _mm256_add_epi16(a, b);
    o[2 * to] = _mm256_sub_epi16(a, b);
    o[3 * to] = _mm256_add_epi16(c, e);
    o[4 * to] = _mm256_sub_epi16(c, e);
    o[5 * to] = _mm256_sub_epi16(_mm256_sub_epi16(d5, d3), _mm256_slli_epi16(f, 2));
}

/* A' of six vectors of int32, `step` apart, for `size` outputs (3 or 4), times 24: the rows (6 4 4 1 1 0) (0 4 -4 2 -2 0) (0 4 4 4 4 0)
 * (0 4 -4 8 -8 0). What is at infinity belongs to the last of them, 24 times. Sums rather than shifts, which fewer units do. */
LB_INLINE void lb_winograd_output(const int size, const __m256i *m, ptrdiff_t step, __m256i *o, int to) {
    const __m256i m0 = m[0], m1 = m[step], m2 = m[2 * step], m3 = m[3 * step], m4 = m[4 * step], m5 = m[5 * step];
    const __m256i s = _mm256_add_epi32(m1, m2), d = _mm256_sub_epi32(m1, m2), t = _mm256_add_epi32(m3, m4), e = _mm256_sub_epi32(m3, m4);
    const __m256i d2 = _mm256_add_epi32(d, d), half = _mm256_add_epi32(d2, e), three = _mm256_add_epi32(m5, _mm256_add_epi32(m5, m5));
    o[0] = _mm256_add_epi32(_mm256_add_epi32(_mm256_slli_epi32(_mm256_add_epi32(m0, s), 2), t), _mm256_add_epi32(m0, m0));
    o[to] = _mm256_add_epi32(half, half);
    const __m256i both = _mm256_add_epi32(s, t);
    o[2 * to] = _mm256_slli_epi32(size == 4 ? both : _mm256_add_epi32(both, _mm256_add_epi32(three, three)), 2);
    if (size == 4) {
        const __m256i last = _mm256_add_epi32(d2, _mm256_slli_epi32(_mm256_add_epi32(e, three), 2));
        o[3 * to] = _mm256_add_epi32(last, last);
    }
}

#endif
