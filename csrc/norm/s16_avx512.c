#include "norm/norm_avx512.h"

lb_norm_s16_fn lb_norm_s16__avx512;

enum { CHUNK = 1 << 17 }; /* elements whose sum fits the 32 bits of a lane: 2^16 for each 32 of them */

/* Two squares are at most 2^31: an unsigned dword, widened at once. */
static inline void sums(const void *elements, ptrdiff_t at, int32_t n, int64_t *s1, int64_t *s2) {
    const int16_t *x = (const int16_t *)elements + at;
    __m512i b = _mm512_setzero_si512();
    *s1 = *s2 = 0;
    for (int32_t i = 0; i < n;) {
        const int32_t end = n - i > CHUNK ? i + CHUNK : n;
        __m512i a = _mm512_setzero_si512();
        for (; i < end; i += 32) {
            const __mmask32 there = end - i < 32 ? ((__mmask32)1 << (end - i)) - 1 : 0xFFFFFFFF;
            const __m512i v = _mm512_maskz_loadu_epi16(there, x + i), squares = _mm512_madd_epi16(v, v);
            a = _mm512_add_epi32(a, _mm512_madd_epi16(v, _mm512_set1_epi16(1)));
            b = _mm512_add_epi64(b, _mm512_and_si512(squares, _mm512_set1_epi64(0xFFFFFFFF)));
            b = _mm512_add_epi64(b, _mm512_srli_epi64(squares, 32));
        }
        *s1 += lb_total16(a);
    }
    int64_t parts[8];
    _mm512_storeu_si512(parts, b);
    for (int i = 0; i < 8; i++)
        *s2 += parts[i];
}

void lb_norm_s16__avx512(const lb_norm_s16_params *p, const int16_t *x, const float *gain, const float *offset, void *out, int32_t begin,
                         int32_t end) {
    lb_norm_sets(p, x, 2, sums, gain, offset, out, begin, end);
}
