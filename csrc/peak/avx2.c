#include "lb.h"

#include <immintrin.h>

lb_peak_s16_fn lb_peak_s16__avx2;

#define TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

/* Twelve sums, as in the products' tiles. The products are volatile: the compiler would make one for all. */
void lb_peak_s16__avx2(const lb_peak_s16_params *p, const int16_t *x, const int16_t *w, int32_t *out) {
    const __m256i a = _mm256_loadu_si256((const __m256i *)x), b = _mm256_loadu_si256((const __m256i *)w);
    __m256i product;
#define START(i) __m256i sum##i = _mm256_setzero_si256();
#define ADD(i)                                                                                                                             \
    __asm__ volatile("vpmaddwd %2, %1, %0" : "=x"(product) : "x"(a), "x"(b));                                                              \
    sum##i = _mm256_add_epi32(sum##i, product);
#define STORE(i) _mm256_storeu_si256((__m256i *)(out + 8 * i), sum##i);
    TWELVE(START)
    for (int32_t r = 0; r < p->rounds; r++) {
        TWELVE(ADD)
    }
    TWELVE(STORE)
}
