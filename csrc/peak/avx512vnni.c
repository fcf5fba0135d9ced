#include "lb.h"
#include "base/vnni.h"

lb_peak_s8_fn lb_peak_s8__avx512vnni;

#define TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

/* Twelve sums, as in the products' tiles. */
void lb_peak_s8__avx512vnni(const lb_peak_s8_params *p, const uint8_t *x, const int8_t *w, int32_t *out) {
    const volatile int32_t zero = 0; /* volatile: the compiler would make one sum for all */
    const __m512i a = _mm512_loadu_si512(x), b = _mm512_loadu_si512(w);
#define START(i) __m512i sum##i = _mm512_set1_epi32(zero);
#define ADD(i) sum##i = lb_dpbusd512(sum##i, a, b);
#define STORE(i) _mm512_storeu_si512(out + 16 * i, sum##i);
    TWELVE(START)
    for (int32_t r = 0; r < p->rounds; r++) {
        TWELVE(ADD)
    }
    TWELVE(STORE)
}
