#include "norm/norm_avx2.h"

lb_norm_s8_fn lb_norm_s8__avx2;

enum { CHUNK = 1 << 16 }; /* elements whose squares fit the 32 bits of a lane: 2 * 2^14 for each 16 of them */

/* Sums of x and of its squares. */
static void sums(const int8_t *x, int32_t n, int64_t *s1, int64_t *s2) {
    int32_t i = 0;
    *s1 = *s2 = 0;
    while (n - i >= 16) {
        const int32_t end = n - i > CHUNK ? i + CHUNK : n;
        __m256i a = _mm256_setzero_si256(), b = a;
        for (; i <= end - 16; i += 16) {
            const __m256i v = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(x + i)));
            a = _mm256_add_epi32(a, _mm256_madd_epi16(v, _mm256_set1_epi16(1)));
            b = _mm256_add_epi32(b, _mm256_madd_epi16(v, v));
        }
        *s1 += lb_total8(a);
        *s2 += lb_total8(b);
    }
    for (; i < n; i++) {
        *s1 += x[i];
        *s2 += x[i] * x[i];
    }
}

void lb_norm_s8__avx2(const lb_norm_s8_params *p, const int8_t *x, const float *gain, const float *offset, void *out, int32_t begin,
                      int32_t end) {
    for (int32_t set = begin; set < end; set++) {
        int64_t s1, s2;
        const int8_t *from = x + (ptrdiff_t)set * p->n;
        sums(from, p->n, &s1, &s2);
        lb_norm_set(p, from, 1, set, s1, s2, gain, offset, out);
    }
}
