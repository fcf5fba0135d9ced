#include "base/avx512.h"
#include "quantize/row_scale.h"

#include <stdint.h>

lb_quantize_rows_f32_s8_fn lb_quantize_rows_f32_s8__avx512;

/* 64 elements, of which `size` exist; the others are 0. */
static inline __attribute__((always_inline)) void load64(const float *x, const int whole, int32_t size, __m512 v[4]) {
    for (int i = 0; i < 4; i++) {
        const int32_t left = size - 16 * i;
        const __mmask16 lanes = lb_first16(left);
        v[i] = whole ? _mm512_loadu_ps(x + 16 * i) : _mm512_maskz_loadu_ps(lanes, x + 16 * i);
    }
}

/* most = the larger of it and the magnitudes of 64 elements, as bits, among which NaN is above infinity; with `numbers` NaN is passed
 * over. */
static inline __attribute__((always_inline)) void larger64(const __m512 v[4], const int numbers, __m512i most[4]) {
    for (int i = 0; i < 4; i++) {
        __m512i bits = _mm512_and_si512(_mm512_castps_si512(v[i]), _mm512_set1_epi32(0x7FFFFFFF));
        if (numbers)
            bits = _mm512_mask_mov_epi32(bits, _mm512_cmpgt_epi32_mask(bits, _mm512_set1_epi32(0x7F800000)), _mm512_setzero_si512());
        most[i] = _mm512_max_epi32(bits, most[i]);
    }
}

/* The bits of the largest magnitude. */
static inline __attribute__((always_inline)) uint32_t largest_bits(const float *x, int32_t size, const int numbers) {
    __m512i most[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
    __m512 v[4];
    int32_t i = 0;
    for (; i + 64 <= size; i += 64) {
        load64(x + i, 1, 64, v);
        larger64(v, numbers, most);
    }
    if (i < size) {
        load64(x + i, 0, size - i, v);
        larger64(v, numbers, most);
    }
    const __m512i all = _mm512_max_epi32(_mm512_max_epi32(most[0], most[1]), _mm512_max_epi32(most[2], most[3]));
    const __m256i half = _mm256_max_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
    __m128i four = _mm_max_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    return (uint32_t)_mm_cvtsi128_si32(_mm_max_epi32(four, _mm_shuffle_epi32(four, 0xB1)));
}

/* Four vectors of integers within -127 ... 127 as bytes. */
static inline __m512i bytes_of(const __m512i q[4]) {
    return lb_in_order(_mm512_packs_epi16(_mm512_packs_epi32(q[0], q[1]), _mm512_packs_epi32(q[2], q[3])));
}

/* 64 elements by division; NaN gives 0. */
static __attribute__((noinline)) __m512i divide64(const __m512 x[4], float scale) {
    __m512i q[4];
    for (int i = 0; i < 4; i++) {
        const __m512 v = _mm512_div_ps(x[i], _mm512_set1_ps(scale));
        const __m512 number = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(v, v, _CMP_ORD_Q), v);
        q[i] = _mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(number, _mm512_set1_ps(-127.0f)), _mm512_set1_ps(127.0f)));
    }
    return bytes_of(q);
}

static __attribute__((noinline)) uint32_t largest_number(const float *x, int32_t size) {
    return largest_bits(x, size, 1);
}

/* Factors just below and just above 1 / scale: numbers that both bring to one integer are rounded to it when they are divided, too. */
typedef struct {
    __m512 below, above;
    float scale;
    int small; /* all are numbers, and nothing overflows or underflows that would be seen */
} factors;

/* 64 elements; a sum with 1.5 * 2^23 holds the integer. Few come so near to a tie that they must be divided. */
static inline __attribute__((always_inline)) __m512i quantize64(const __m512 v[4], const factors *f) {
    const __m512 magic = _mm512_set1_ps(0x1.8p23f);
    __m512i q[4], differ = _mm512_setzero_si512();
    for (int i = 0; i < 4; i++) {
        const __m512i y = _mm512_castps_si512(_mm512_fmadd_ps(v[i], f->above, magic));
        const __m512i z = _mm512_castps_si512(_mm512_fmadd_ps(v[i], f->below, magic));
        differ = _mm512_ternarylogic_epi32(differ, y, z, 0xF6); /* differ | (y ^ z) */
        q[i] = _mm512_sub_epi32(y, _mm512_castps_si512(magic));
    }
    return f->small && !_mm512_test_epi32_mask(differ, differ) ? bytes_of(q) : divide64(v, f->scale);
}

/* Rows are read twice, first for their scale. */
void lb_quantize_rows_f32_s8__avx512(const lb_quantize_rows_f32_s8_params *p, const float *x, int8_t *out, float *scales, int32_t begin,
                                     int32_t end) {
    for (int32_t row = begin; row < end; row++) {
        const float *from = x + (ptrdiff_t)row * p->size;
        int8_t *to = out + (ptrdiff_t)row * p->size;
        const uint32_t bits = largest_bits(from, p->size, 0);
        const int numbers = bits < 0x7f800000u;
        const float scale = lb_row_scale(lb_f32_of_bits(numbers ? bits : largest_number(from, p->size))), inverse = 1.0f / scale;
        const factors f = {_mm512_set1_ps(inverse * (1.0f - 0x1p-22f)), _mm512_set1_ps(inverse * (1.0f + 0x1p-22f)), scale,
                           numbers && scale > 0x1p-60f && scale < 0x1p60f};
        const uintptr_t next = (uintptr_t)(from + p->size); /* the next row may begin a page, to which no stream leads */
        int32_t i = 0;
        __m512 v[4];
        scales[row] = scale;
        for (; i + 64 <= p->size; i += 64) {
            for (uintptr_t j = 0; j < 4; j++)
                _mm_prefetch((const char *)(next + 4 * (uintptr_t)i + 64 * j), _MM_HINT_T0);
            load64(from + i, 1, 64, v);
            _mm512_storeu_si512(to + i, quantize64(v, &f));
        }
        if (i < p->size) {
            load64(from + i, 0, p->size - i, v);
            _mm512_mask_storeu_epi8(to + i, ((uint64_t)1 << (p->size - i)) - 1, quantize64(v, &f));
        }
    }
}
