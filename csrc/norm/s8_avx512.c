#include "norm/norm_avx512.h"

lb_norm_s8_fn lb_norm_s8__avx512;

enum { CHUNK = 1 << 20 }; /* elements whose squares fit the 32 bits of a lane: 2 * 2^14 for each 32 of them */

static inline void sums(const void *elements, ptrdiff_t at, int32_t n, int64_t *s1, int64_t *s2) {
    const int8_t *x = (const int8_t *)elements + at;
    *s1 = *s2 = 0;
    for (int32_t i = 0; i < n;) {
        const int32_t end = n - i > CHUNK ? i + CHUNK : n;
        __m512i a = _mm512_setzero_si512(), b = a;
        for (; i < end; i += 32) {
            const __mmask64 there = end - i < 32 ? ((__mmask64)1 << (end - i)) - 1 : 0xFFFFFFFF;
            const __m512i v = _mm512_cvtepi8_epi16(_mm512_castsi512_si256(_mm512_maskz_loadu_epi8(there, x + i)));
            a = _mm512_add_epi32(a, _mm512_madd_epi16(v, _mm512_set1_epi16(1)));
            b = _mm512_add_epi32(b, _mm512_madd_epi16(v, v));
        }
        *s1 += lb_total16(a);
        *s2 += lb_total16(b);
    }
}

void lb_norm_s8__avx512(const lb_norm_s8_params *p, const int8_t *x, const float *gain, const float *offset, void *out, int32_t begin,
                        int32_t end) {
    lb_norm_sets(p, x, 1, sums, gain, offset, out, begin, end);
}
