#include "norm/norm_avx2.h"

lb_norm_s16_fn lb_norm_s16__avx2;

enum { CHUNK = 1 << 16 }; /* elements whose sum fits the 32 bits of a lane: 2^16 for each 16 of them */

/* Sums of x and of its squares. Two squares are at most 2^31: an unsigned dword, widened at once. */
static void sums(const int16_t *x, int32_t n, int64_t *s1, int64_t *s2) {
    int32_t i = 0;
    *s1 = *s2 = 0;
    __m256i b = _mm256_setzero_si256();
    while (n - i >= 16) {
        const int32_t end = n - i > CHUNK ? i + CHUNK : n;
        __m256i a = _mm256_setzero_si256();
        for (; i <= end - 16; i += 16) {
            const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(x + i)), squares = _mm256_madd_epi16(v, v);
            a = _mm256_add_epi32(a, _mm256_madd_epi16(v, _mm256_set1_epi16(1)));
            b = _mm256_add_epi64(b, _mm256_and_si256(squares, _mm256_set1_epi64x(0xFFFFFFFF)));
            b = _mm256_add_epi64(b, _mm256_srli_epi64(squares, 32));
        }
        *s1 += lb_total8(a);
    }
    int64_t parts[4];
    _mm256_storeu_si256((__m256i *)(void *)parts, b);
    *s2 = parts[0] + parts[1] + parts[2] + parts[3];
    for (; i < n; i++) {
        *s1 += x[i];
        *s2 += x[i] * x[i];
    }
}

void lb_norm_s16__avx2(const lb_norm_s16_params *p, const int16_t *x, const float *gain, const float *offset, void *out, int32_t begin,
                       int32_t end) {
    for (int32_t set = begin; set < end; set++) {
        int64_t s1, s2;
        const int16_t *from = x + (ptrdiff_t)set * p->n;
        sums(from, p->n, &s1, &s2);
        lb_norm_set(p, from, 2, set, s1, s2, gain, offset, out);
    }
}
