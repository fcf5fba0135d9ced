/* What convolutions by Winograd's tiles share on AVX-512: six inputs in a row at the points 0, 1, -1, 2, -2 and infinity, weights there,
 * and outputs of six points. Signs and factors of two are put where they take the fewest instructions: they differ from those of AVX2. */
#ifndef LB_WINOGRAD_AVX512_H
#define LB_WINOGRAD_AVX512_H

#include "base/avx512.h"
#include "base/unroll.h"

#include <stddef.h>

/* B' of six vectors of int16: the rows (4 0 -5 0 1 0) (0 4 4 -1 -1 0) (0 -4 4 1 -1 0) (0 -2 -1 2 1 0) (0 2 -1 -2 1 0) (0 4 0 -5 0 1). They
 * sum up to 0 but for the second, whose sum is 6: a zero point is seen at (1, 1) only. */
LB_INLINE void lb_winograd_input(const __m512i d[6], __m512i *o, int to) {
    const __m512i a = _mm512_sub_epi16(_mm512_slli_epi16(d[2], 2), d[4]), b = _mm512_sub_epi16(_mm512_slli_epi16(d[1], 2), d[3]);
    const __m512i c = _mm512_sub_epi16(d[4], d[2]), f = _mm512_sub_epi16(d[3], d[1]), e = _mm512_add_epi16(f, f);
    o[0] = _mm512_add_epi16(_mm512_slli_epi16(_mm512_sub_epi16(d[0], d[2]), 2), c);
    o[to] = _mm512_add_epi16(a, b);
    o[2 * to] = _mm512_sub_epi16(a, b);
    o[3 * to] = _mm512_add_epi16(c, e);
    o[4 * to] = _mm512_sub_epi16(c, e);
    o[5 * to] = _mm512_sub_epi16(_mm512_sub_epi16(d[5], d[3]), _mm512_slli_epi16(f, 2));
}

/* G of three vectors of int16: the rows (1 0 0) (1 1 1) (1 -1 1) (1 2 4) (1 -2 4) (0 0 4). */
LB_INLINE void lb_winograd_weights(__m512i w0, __m512i w1, __m512i w2, __m512i *o, int to) {
    const __m512i s = _mm512_add_epi16(w0, w2), last = _mm512_slli_epi16(w2, 2);
    const __m512i t = _mm512_add_epi16(w0, last), e = _mm512_add_epi16(w1, w1);
    o[0] = w0;
    o[to] = _mm512_add_epi16(s, w1);
    o[2 * to] = _mm512_sub_epi16(s, w1);
    o[3 * to] = _mm512_add_epi16(t, e);
    o[4 * to] = _mm512_sub_epi16(t, e);
    o[5 * to] = last;
}

/* A' of six vectors of int32, `step` apart, for four outputs, times 24: the rows (6 4 4 1 1 0) (0 4 -4 2 -2 0) (0 4 4 4 4 0)
 * (0 4 -4 8 -8 6). */
LB_INLINE void lb_winograd_output(const __m512i *m, ptrdiff_t step, __m512i *o, int to) {
    const __m512i m0 = m[0], m1 = m[step], m2 = m[2 * step], m3 = m[3 * step], m4 = m[4 * step], m5 = m[5 * step];
    const __m512i s = _mm512_add_epi32(m1, m2), d = _mm512_sub_epi32(m1, m2), t = _mm512_add_epi32(m3, m4), e = _mm512_sub_epi32(m3, m4);
    const __m512i d2 = _mm512_add_epi32(d, d), half = _mm512_add_epi32(d2, e), five = _mm512_add_epi32(m5, _mm512_add_epi32(m5, m5));
    const __m512i last = _mm512_add_epi32(_mm512_add_epi32(d2, five), _mm512_slli_epi32(e, 2));
    o[0] = _mm512_add_epi32(_mm512_add_epi32(_mm512_slli_epi32(_mm512_add_epi32(m0, s), 2), t), _mm512_add_epi32(m0, m0));
    o[to] = _mm512_add_epi32(half, half);
    o[2 * to] = _mm512_slli_epi32(_mm512_add_epi32(s, t), 2);
    o[3 * to] = _mm512_add_epi32(last, last);
}

#endif
