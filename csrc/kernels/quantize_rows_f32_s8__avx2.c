#include "lb_rows.h"

#include <immintrin.h>
#include <string.h>

lb_quantize_rows_f32_s8_fn lb_quantize_rows_f32_s8__avx2;

/* The largest magnitude; the second operand of vmaxps is what stays where the first is NaN. */
static float largest_of(const float *x, int32_t size) {
    const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
    __m256 m[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
    int32_t i = 0;
    for (; i + 32 <= size; i += 32)
        for (int j = 0; j < 4; j++)
            m[j] = _mm256_max_ps(_mm256_and_ps(_mm256_loadu_ps(x + i + 8 * j), magnitude), m[j]);
    for (; i < size; i += 8) {
        float tail[8] = {0};
        memcpy(tail, x + i, 4 * (size_t)(size - i < 8 ? size - i : 8));
        m[0] = _mm256_max_ps(_mm256_and_ps(_mm256_loadu_ps(tail), magnitude), m[0]);
    }
    const __m256 all = _mm256_max_ps(_mm256_max_ps(m[0], m[1]), _mm256_max_ps(m[2], m[3]));
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

/* 8 elements as int32; NaN gives 0. */
static inline __m256i quantize8(__m256 x, __m256 scale) {
    const __m256 v = _mm256_div_ps(x, scale);
    const __m256 in =
        _mm256_min_ps(_mm256_max_ps(_mm256_and_ps(v, _mm256_cmp_ps(v, v, _CMP_ORD_Q)), _mm256_set1_ps(-127.0f)), _mm256_set1_ps(127.0f));
    return _mm256_cvtps_epi32(in);
}

static inline __m256i quantize32(const float *x, __m256 scale) {
    const __m256i a = _mm256_packs_epi32(quantize8(_mm256_loadu_ps(x), scale), quantize8(_mm256_loadu_ps(x + 8), scale));
    const __m256i b = _mm256_packs_epi32(quantize8(_mm256_loadu_ps(x + 16), scale), quantize8(_mm256_loadu_ps(x + 24), scale));
    return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

void lb_quantize_rows_f32_s8__avx2(const lb_quantize_rows_f32_s8_params *p, const float *x, int8_t *out, float *scales, int32_t begin,
                                   int32_t end) {
    for (int32_t row = begin; row < end; row++) {
        const float *from = x + (ptrdiff_t)row * p->size;
        int8_t *to = out + (ptrdiff_t)row * p->size;
        scales[row] = lb_row_scale(largest_of(from, p->size));
        const __m256 scale = _mm256_set1_ps(scales[row]);
        int32_t i = 0;
        for (; i + 32 <= p->size; i += 32)
            _mm256_storeu_si256((__m256i *)(void *)(to + i), quantize32(from + i, scale));
        if (i < p->size) {
            float tail[32] = {0};
            int8_t bytes[32];
            memcpy(tail, from + i, 4 * (size_t)(p->size - i));
            _mm256_storeu_si256((__m256i *)(void *)bytes, quantize32(tail, scale));
            memcpy(to + i, bytes, (size_t)(p->size - i));
        }
    }
}
