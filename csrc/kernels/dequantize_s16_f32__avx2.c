#include "lb.h"
#include "lb_numerics.h"
#include "lb_put_avx2.h"

lb_dequantize_s16_f32_fn lb_dequantize_s16_f32__avx2;

void lb_dequantize_s16_f32__avx2(const lb_dequantize_s16_f32_params *p, const int16_t *x, float *out, int32_t begin, int32_t end) {
    const lb_target target = lb_target_of(4, 0, 0, 0);
    const __m256 scale = _mm256_set1_ps(p->scale);
    const __m256i zero = _mm256_set1_epi32(p->zero_point);
    int32_t i = begin;
    for (; i <= end - 8; i += 8) {
        const __m256 v = _mm256_mul_ps(scale, _mm256_cvtepi32_ps(_mm256_sub_epi32(
                                                  _mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(x + i))), zero)));
        lb_put8(out, i, v, 8, &target);
    }
    for (; i < end; i++)
        out[i] = lb_dequantize(x[i], p->scale, p->zero_point);
}
