#include "lb.h"
#include "lb_numerics.h"
#include "lb_put_avx2.h"

lb_requantize_s16_fn lb_requantize_s16__avx2;

void lb_requantize_s16__avx2(const lb_requantize_s16_params *p, const int16_t *x, int16_t *out, int32_t begin, int32_t end) {
    const lb_target target = lb_target_of(2, p->y_zero, p->lo, p->hi);
    const __m256 m = _mm256_set1_ps(p->multiplier);
    const __m256i zero = _mm256_set1_epi32(p->x_zero);
    int32_t i = begin;
    for (; i <= end - 8; i += 8) {
        const __m256 v = _mm256_mul_ps(
            _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(x + i))), zero)), m);
        lb_put8(out, i, v, 8, &target);
    }
    for (; i < end; i++)
        out[i] = (int16_t)lb_requantize(x[i] - p->x_zero, p->multiplier, p->y_zero, p->lo, p->hi);
}
