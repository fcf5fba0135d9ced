#include "lb.h"
#include "lb_numerics.h"

#include <immintrin.h>

lb_dequantize_s8_f32_fn lb_dequantize_s8_f32__avx2;

void lb_dequantize_s8_f32__avx2(const lb_dequantize_s8_f32_params *p, const int8_t *x, float *out, int32_t begin, int32_t end) {
    const __m256 scale = _mm256_set1_ps(p->scale);
    const __m256i zero_point = _mm256_set1_epi32(p->zero_point);
    int32_t i = begin;
    for (; i <= end - 8; i += 8) {
        const __m256i q = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(x + i)));
        _mm256_storeu_ps(out + i, _mm256_mul_ps(scale, _mm256_cvtepi32_ps(_mm256_sub_epi32(q, zero_point))));
    }
    for (; i < end; i++)
        out[i] = lb_dequantize(x[i], p->scale, p->zero_point);
}
