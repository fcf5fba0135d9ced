#include "lb.h"
#include "base/avx512.h"

lb_peak_f32_fn lb_peak_f32__avx512;

#define SIX(X) X(0) X(1) X(2) X(3) X(4) X(5)

/* A vector is two sums of 8 lanes, so six are all; twelve, of every other round each, fill the pipeline. The products are volatile: the
 * compiler would make one for all. */
void lb_peak_f32__avx512(const lb_peak_f32_params *p, const float *x, const float *w, float *out) {
    const __m512i twice = _mm512_set_epi32(7, 6, 5, 4, 3, 2, 1, 0, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512 a = _mm512_permutexvar_ps(twice, _mm512_castps256_ps512(_mm256_loadu_ps(x)));
    const __m512 b = _mm512_permutexvar_ps(twice, _mm512_castps256_ps512(_mm256_loadu_ps(w)));
#ifdef LB_SIMDE
#define ADD(i) sum##i = _mm512_fmadd_ps(a, b, sum##i);
#define ADD_ODD(i) odd##i = _mm512_fmadd_ps(a, b, odd##i);
#else
#define ADD(i) __asm__ volatile("vfmadd231ps %2, %1, %0" : "+v"(sum##i) : "v"(a), "v"(b));
#define ADD_ODD(i) __asm__ volatile("vfmadd231ps %2, %1, %0" : "+v"(odd##i) : "v"(a), "v"(b));
#endif
#define START(i) __m512 sum##i = _mm512_setzero_ps(), odd##i = _mm512_setzero_ps();
#define STORE(i) _mm512_storeu_ps(out + 16 * i, _mm512_add_ps(sum##i, odd##i));
    SIX(START)
    int32_t r = 0;
    for (; r < p->rounds - 1; r += 2) {
        SIX(ADD)
        SIX(ADD_ODD)
    }
    if (r < p->rounds) {
        SIX(ADD)
    }
    SIX(STORE)
}
