#include "lb.h"

#include <immintrin.h>

lb_peak_f32_fn lb_peak_f32__avx2;

#define TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

/* Twelve sums, as in the products' tiles. The products are volatile: the compiler would make one for all. */
void lb_peak_f32__avx2(const lb_peak_f32_params *p, const float *x, const float *w, float *out) {
    const __m256 a = _mm256_loadu_ps(x), b = _mm256_loadu_ps(w);
#define START(i) __m256 sum##i = _mm256_setzero_ps();
#define ADD(i) __asm__ volatile("vfmadd231ps %2, %1, %0" : "+x"(sum##i) : "x"(a), "x"(b));
#define STORE(i) _mm256_storeu_ps(out + 8 * i, sum##i);
    TWELVE(START)
    for (int32_t r = 0; r < p->rounds; r++) {
        TWELVE(ADD)
    }
    TWELVE(STORE)
}
