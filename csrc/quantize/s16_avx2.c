#include "lb.h"
#include "base/numerics.h"
#include "base/store_avx2.h"

/* Eight elements at a time, `ints` of them as int32; the rest by the portable function. */
#define LB_REQUANTIZE(type, ints)                                                                                                          \
    const lb_target target = lb_target_of(sizeof(type), p->y_zero, p->lo, p->hi);                                                          \
    const __m256 m = _mm256_set1_ps(p->multiplier);                                                                                        \
    const __m256i zero = _mm256_set1_epi32(p->x_zero);                                                                                     \
    int32_t i = begin;                                                                                                                     \
    for (; i <= end - 8; i += 8)                                                                                                           \
        lb_put8(out, i, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(ints, zero)), m), 8, &target);                                   \
    for (; i < end; i++)                                                                                                                   \
        out[i] = (type)lb_requantize(x[i] - p->x_zero, p->multiplier, p->y_zero, p->lo, p->hi);
#define LB_FROM_BYTES _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(x + i)))
#define LB_FROM_WORDS _mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(x + i)))

lb_quantize_f32_s16_fn lb_quantize_f32_s16__avx2;

void lb_quantize_f32_s16__avx2(const lb_quantize_f32_s16_params *p, const float *x, int16_t *out, int32_t begin, int32_t end) {
    const lb_target target = lb_target_of(2, p->zero_point, p->lo, p->hi);
    const __m256 scale = _mm256_set1_ps(p->scale);
    int32_t i = begin;
    for (; i <= end - 8; i += 8) {
        const __m256 v = _mm256_div_ps(_mm256_loadu_ps(x + i), scale);
        lb_put8(out, i, v, 8, &target);
    }
    for (; i < end; i++)
        out[i] = (int16_t)lb_quantize(x[i], p->scale, p->zero_point, p->lo, p->hi);
}

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

lb_requantize_s8_s16_fn lb_requantize_s8_s16__avx2;

void lb_requantize_s8_s16__avx2(const lb_requantize_s8_s16_params *p, const int8_t *x, int16_t *out, int32_t begin,
                                int32_t end){LB_REQUANTIZE(int16_t, LB_FROM_BYTES)}

lb_requantize_s16_s8_fn lb_requantize_s16_s8__avx2;

void lb_requantize_s16_s8__avx2(const lb_requantize_s16_s8_params *p, const int16_t *x, int8_t *out, int32_t begin,
                                int32_t end){LB_REQUANTIZE(int8_t, LB_FROM_WORDS)}

lb_requantize_s16_fn lb_requantize_s16__avx2;

void lb_requantize_s16__avx2(const lb_requantize_s16_params *p, const int16_t *x, int16_t *out, int32_t begin, int32_t end) {
    LB_REQUANTIZE(int16_t, LB_FROM_WORDS)
}
