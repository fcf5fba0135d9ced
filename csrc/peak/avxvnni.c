#include "lb.h"
#include "base/vnni.h"

lb_peak_s8_fn lb_peak_s8__avxvnni;

#define TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

/* Twelve sums, as in the products' tiles: of eight lanes, then of the others. */
void lb_peak_s8__avxvnni(const lb_peak_s8_params *p, const uint8_t *x, const int8_t *w, int32_t *out) {
    const volatile int32_t zero = 0; /* volatile: the compiler would make one sum for all */
    for (int32_t half = 0; half < 2; half++, x += 32, w += 32, out += 8) {
        const __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)x), b = _mm256_loadu_si256((const __m256i *)(const void *)w);
#define START(i) __m256i sum##i = _mm256_set1_epi32(zero);
#define ADD(i) sum##i = lb_dpbusd256(sum##i, a, b);
#define STORE(i) _mm256_storeu_si256((__m256i *)(void *)(out + 16 * i), sum##i);
        TWELVE(START)
        for (int32_t r = 0; r < p->rounds; r++) {
            TWELVE(ADD)
        }
        TWELVE(STORE)
    }
}
