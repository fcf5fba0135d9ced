#include "base/divide_avx2.h"
#include "quantize/row_scale.h"

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

lb_quantize_rows_f32_s8_fn lb_quantize_rows_f32_s8__avx2;

/* The bits of the largest magnitude, among which NaN is above infinity. */
static uint32_t largest_bits(const float *x, int32_t size) {
    const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
    __m256i m[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    int32_t i = 0;
    for (; i + 32 <= size; i += 32)
        for (int j = 0; j < 4; j++) {
            const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(x + i + 8 * j));
            m[j] = _mm256_max_epi32(_mm256_and_si256(v, magnitude), m[j]);
        }
    for (; i < size; i += 8) {
        float tail[8] = {0};
        memcpy(tail, x + i, 4 * (size_t)(size - i < 8 ? size - i : 8));
        m[0] = _mm256_max_epi32(_mm256_and_si256(_mm256_loadu_si256((const __m256i *)(const void *)tail), magnitude), m[0]);
    }
    const __m256i all = _mm256_max_epi32(_mm256_max_epi32(m[0], m[1]), _mm256_max_epi32(m[2], m[3]));
    __m128i half = _mm_max_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    half = _mm_max_epi32(half, _mm_shuffle_epi32(half, 0x4E));
    return (uint32_t)_mm_cvtsi128_si32(_mm_max_epi32(half, _mm_shuffle_epi32(half, 0xB1)));
}

/* The largest magnitude, NaN passed over. */
static float largest_number(const float *x, int32_t size) {
    float most = 0;
    for (int32_t i = 0; i < size; i++) {
        const float v = lb_f32_of_bits(lb_f32_bits(x[i]) & 0x7fffffffu);
        most = v > most ? v : most;
    }
    return most;
}

/* 8 elements as int32; NaN gives 0. */
static inline __m256i quantize8(__m256 x, __m256 scale) {
    const __m256 v = _mm256_div_ps(x, scale);
    const __m256 in =
        _mm256_min_ps(_mm256_max_ps(_mm256_and_ps(v, _mm256_cmp_ps(v, v, _CMP_ORD_Q)), _mm256_set1_ps(-127.0f)), _mm256_set1_ps(127.0f));
    return _mm256_cvtps_epi32(in);
}

static inline __m256i pack32(__m256i a, __m256i b, __m256i c, __m256i d) {
    const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

static __m256i quantize32(const float *x, __m256 scale) {
    return pack32(quantize8(_mm256_loadu_ps(x), scale), quantize8(_mm256_loadu_ps(x + 8), scale), quantize8(_mm256_loadu_ps(x + 16), scale),
                  quantize8(_mm256_loadu_ps(x + 24), scale));
}

/* The same of numbers that are at most 127 times the scale. */
static inline __m256i divide32(const float *x, const lb_divisor *by) {
    return pack32(_mm256_cvtps_epi32(lb_divided_small(_mm256_loadu_ps(x), by)),
                  _mm256_cvtps_epi32(lb_divided_small(_mm256_loadu_ps(x + 8), by)),
                  _mm256_cvtps_epi32(lb_divided_small(_mm256_loadu_ps(x + 16), by)),
                  _mm256_cvtps_epi32(lb_divided_small(_mm256_loadu_ps(x + 24), by)));
}

/* Factors just below and just above 1 / d: numbers that both bring to one integer are rounded to it when they are divided, too. */
typedef struct {
    __m256 below, above;
} reciprocals;

static inline reciprocals reciprocals_of(const lb_divisor *by) {
    return (reciprocals){_mm256_mul_ps(by->r, _mm256_set1_ps(1.0f - 0x1p-22f)), _mm256_mul_ps(by->r, _mm256_set1_ps(1.0f + 0x1p-22f))};
}

/* divide32 by products: a sum with 1.5 * 2^23 holds the integer in its low word. Few come so near to a tie that they must be divided. */
static inline __m256i multiply32(const float *x, const lb_divisor *by, const reciprocals *r) {
    const __m256 magic = _mm256_set1_ps(0x1.8p23f);
    __m256i y[4], differ = _mm256_setzero_si256();
    for (int i = 0; i < 4; i++) {
        const __m256 v = _mm256_loadu_ps(x + 8 * i);
        y[i] = _mm256_castps_si256(_mm256_fmadd_ps(v, r->above, magic));
        differ = _mm256_or_si256(differ, _mm256_xor_si256(y[i], _mm256_castps_si256(_mm256_fmadd_ps(v, r->below, magic))));
    }
    if (!_mm256_testz_si256(differ, differ))
        return divide32(x, by);
    const __m256i a = _mm256_blend_epi16(y[0], _mm256_slli_epi32(y[1], 16), 0xAA);
    const __m256i b = _mm256_blend_epi16(y[2], _mm256_slli_epi32(y[3], 16), 0xAA);
    const __m256i even = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15));
    const __m256i bytes = _mm256_shuffle_epi8(_mm256_packs_epi16(a, b), even);
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

void lb_quantize_rows_f32_s8__avx2(const lb_quantize_rows_f32_s8_params *p, const float *x, int8_t *out, float *scales, int32_t begin,
                                   int32_t end) {
    for (int32_t row = begin; row < end; row++) {
        const float *from = x + (ptrdiff_t)row * p->size;
        int8_t *to = out + (ptrdiff_t)row * p->size;
        const uint32_t bits = largest_bits(from, p->size);
        const int numbers = bits < 0x7f800000u;
        scales[row] = lb_row_scale(numbers ? lb_f32_of_bits(bits) : largest_number(from, p->size));
        const int small = numbers && bits && lb_divides(scales[row]);
        const lb_divisor by = lb_divisor_of(scales[row]);
        const reciprocals r = reciprocals_of(&by);
        const uintptr_t next = (uintptr_t)(from + p->size); /* the next row may begin a page, to which no stream leads */
        int32_t i = 0;
        for (; i + 32 <= p->size && small; i += 32) {
            _mm_prefetch((const char *)(next + 4 * (uintptr_t)i), _MM_HINT_T0);
            _mm_prefetch((const char *)(next + 4 * (uintptr_t)i + 64), _MM_HINT_T0);
            _mm256_storeu_si256((__m256i *)(void *)(to + i), multiply32(from + i, &by, &r));
        }
        for (; i + 32 <= p->size; i += 32)
            _mm256_storeu_si256((__m256i *)(void *)(to + i), quantize32(from + i, by.d));
        if (i < p->size) {
            float tail[32] = {0};
            int8_t bytes[32];
            memcpy(tail, from + i, 4 * (size_t)(p->size - i));
            _mm256_storeu_si256((__m256i *)(void *)bytes, quantize32(tail, by.d));
            memcpy(to + i, bytes, (size_t)(p->size - i));
        }
    }
}
