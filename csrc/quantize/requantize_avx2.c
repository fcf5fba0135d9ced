#include "lb.h"
#include "base/numerics.h"
#include "base/requantize_avx2.h"

lb_requantize_s8_fn lb_requantize_s8__avx2;

void lb_requantize_s8__avx2(const lb_requantize_s8_params *p, const int8_t *x, int8_t *out, int32_t begin, int32_t end) {
    const lb_clamp16 clamp = lb_clamp16_of(p->y_zero, p->lo, p->hi);
    const __m256 m = _mm256_set1_ps(p->multiplier);
    const __m256i zero = _mm256_set1_epi32(p->x_zero);
    int32_t i = begin;
    for (; i <= end - 16; i += 16) {
        const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(x + i));
        const __m256i low = _mm256_sub_epi32(_mm256_cvtepi8_epi32(v), zero);
        const __m256i high = _mm256_sub_epi32(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(v, v)), zero);
        _mm_storeu_si128((__m128i *)(void *)(out + i), lb_requantize16(low, high, m, m, &clamp));
    }
    for (; i < end; i++)
        out[i] = (int8_t)lb_requantize(x[i] - p->x_zero, p->multiplier, p->y_zero, p->lo, p->hi);
}
