/* Quotients by one divisor that are rounded to integers of up to 16 bits: products, as a division takes as long as seven of them.
 *
 * With r = fl(1 / d) and rest = fl((1 - d * r) * r), q = fl(x * r + fl(x * rest)) is less than one unit in the last place from x / d, so
 * fl(q + (x - q * d) * r) is fl(x / d) (Markstein's theorem): x - q * d is exact. x is limited to 2^17 d, beyond what any zero point brings
 * back, and quotients so small that something underflows are 0 both ways. */
#ifndef LB_DIVIDE_AVX2_H
#define LB_DIVIDE_AVX2_H

#include <immintrin.h>

typedef struct {
    __m256 d, r, rest, most;
} lb_divisor;

/* Whether nothing overflows or underflows on the way that would be seen. */
static inline int lb_divides(float d) {
    return d > 0x1p-60f && d < 0x1p60f;
}

static inline lb_divisor lb_divisor_of(float d) {
    const __m256 v = _mm256_set1_ps(d), one = _mm256_set1_ps(1.0f), r = _mm256_div_ps(one, v);
    return (lb_divisor){v, r, _mm256_mul_ps(_mm256_fnmadd_ps(v, r, one), r), _mm256_mul_ps(v, _mm256_set1_ps(0x1p17f))};
}

/* x / d, for |x| up to 2^17 d. */
static inline __m256 lb_divided_small(__m256 x, const lb_divisor *by) {
    const __m256 q = _mm256_fmadd_ps(x, by->r, _mm256_mul_ps(x, by->rest));
    return _mm256_fmadd_ps(_mm256_fnmadd_ps(q, by->d, x), by->r, q);
}

/* x / d, or something that is as far out of range. x is not NaN. */
static inline __m256 lb_divided(__m256 x, const lb_divisor *by) {
    return lb_divided_small(_mm256_max_ps(_mm256_min_ps(x, by->most), _mm256_sub_ps(_mm256_setzero_ps(), by->most)), by);
}

#endif
