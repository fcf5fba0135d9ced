#include "lb.h"
#include "quantize/quantize_rest.h"

#include <immintrin.h>

lb_quantize_f32_s8_fn lb_quantize_f32_s8__avx2;

typedef struct {
    __m256 scale, fmin, fmax;
    __m256i zero_point;
} lanes;

/* Eight results as int32, as lb_quantize: cvtps rounds ties to even, and its input is clamped to a range it can hold. */
static inline __m256i quantize8(const float *x, const lanes *c) {
    __m256 v = _mm256_div_ps(_mm256_loadu_ps(x), c->scale);
    v = _mm256_and_ps(v, _mm256_cmp_ps(v, v, _CMP_ORD_Q)); /* NaN -> 0 */
    v = _mm256_min_ps(_mm256_max_ps(v, c->fmin), c->fmax);
    return _mm256_add_epi32(_mm256_cvtps_epi32(v), c->zero_point);
}

void lb_quantize_f32_s8__avx2(const lb_quantize_f32_s8_params *p, const float *x, int8_t *out, int32_t begin, int32_t end) {
    const lanes c = {
        _mm256_set1_ps(p->scale),
        _mm256_set1_ps((float)(p->lo - p->zero_point)),
        _mm256_set1_ps((float)(p->hi - p->zero_point)),
        _mm256_set1_epi32(p->zero_point),
    };
    /* The packs work within 128-bit halves: a0 b0 c0 d0 a1 b1 c1 d1 in dwords. */
    const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    int32_t i = begin;
    for (; i <= end - 32; i += 32) {
        const __m256i ab = _mm256_packs_epi32(quantize8(x + i, &c), quantize8(x + i + 8, &c));
        const __m256i cd = _mm256_packs_epi32(quantize8(x + i + 16, &c), quantize8(x + i + 24, &c));
        const __m256i q = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(ab, cd), in_order);
        _mm256_storeu_si256((__m256i *)(void *)(out + i), q);
    }
    lb_quantize_rest(p, x, out, i, end);
}

lb_dequantize_s8_f32_fn lb_dequantize_s8_f32__avx2;

void lb_dequantize_s8_f32__avx2(const lb_dequantize_s8_f32_params *p, const int8_t *x, float *out, int32_t begin, int32_t end) {
    const __m256 scale = _mm256_set1_ps(p->scale);
    const __m256i zero_point = _mm256_set1_epi32(p->zero_point);
    int32_t i = begin;
    for (; i <= end - 8; i += 8) {
        const __m256i q = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(x + i)));
        _mm256_storeu_ps(out + i, _mm256_mul_ps(scale, _mm256_cvtepi32_ps(_mm256_sub_epi32(q, zero_point))));
    }
    lb_dequantize_rest(p, x, out, i, end);
}
