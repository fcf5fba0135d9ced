/* What becomes of the sums of 4-bit weights. */
#ifndef LB_W4_EPILOGUE_AVX2_H
#define LB_W4_EPILOGUE_AVX2_H

#include "int4/w4_rows_avx2.h"

/* 16 columns from n on of one row. */
LB_INLINE void lb_w4_put(const lb_w4_product *p, const lb_result to, __m256 y[2], ptrdiff_t row, ptrdiff_t n, ptrdiff_t width) {
    const ptrdiff_t at = row * p->out_stride + n;
    if (to == LB_TO_F32 && width == LB_W4_PANEL)
        memcpy((float *)p->out + at, y, 2 * sizeof *y);
    else if (to == LB_TO_F32)
        memcpy((float *)p->out + at, y, 4 * (size_t)width);
    else if (to == LB_TO_S16)
        lb_store_rounded_words((int16_t *)p->out + at, y[0], y[1], p->y_zero, p->lo, p->hi, width);
    else
        lb_store_bytes((int8_t *)p->out + at, lb_round16(y[0], y[1], &p->clamp), width);
}

/* Rows of 16 sums with a multiplier for each channel as bytes, two at a time. `bare`: lb_requantize32_bare will do. */
LB_INLINE void lb_w4_put_rows(const lb_w4_product *p, const int bare, const int32_t *sums, ptrdiff_t row, ptrdiff_t rows, ptrdiff_t n,
                              const int32_t bias[LB_W4_PANEL], __m256 m0, __m256 m1) {
    const __m256i b0 = _mm256_load_si256((const __m256i *)(const void *)bias),
                  b1 = _mm256_load_si256((const __m256i *)(const void *)(bias + 8));
    const lb_clamp16 clamp = p->clamp;
    const ptrdiff_t stride = p->out_stride;
    int8_t *out = (int8_t *)p->out + row * stride + n;
    for (ptrdiff_t i = 0; i < rows; i += 2, sums += 2 * LB_W4_PANEL, out += 2 * stride) {
        const ptrdiff_t next = i + 1 < rows; /* or the same row twice */
        const __m256i *s = (const __m256i *)(const void *)sums, *t = s + 2 * next;
        const __m256i a[2] = {_mm256_add_epi32(_mm256_load_si256(s), b0), _mm256_add_epi32(_mm256_load_si256(s + 1), b1)};
        const __m256i b[2] = {_mm256_add_epi32(_mm256_load_si256(t), b0), _mm256_add_epi32(_mm256_load_si256(t + 1), b1)};
        const __m256i bytes = bare ? lb_requantize32_bare(a, b, m0, m1, clamp.zero_point) : lb_requantize32(a, b, m0, m1, &clamp);
        _mm_storeu_si128((__m128i *)(void *)out, _mm256_castsi256_si128(bytes));
        _mm_storeu_si128((__m128i *)(void *)(out + stride * next), _mm256_extracti128_si256(bytes, 1));
    }
}

static inline void lb_w4_put_channels(const lb_w4_product *p, const int32_t *sums, ptrdiff_t row, ptrdiff_t rows, ptrdiff_t n,
                                      const int32_t bias[LB_W4_PANEL], const float m[LB_W4_PANEL]) {
    const __m256 m0 = _mm256_load_ps(m), m1 = _mm256_load_ps(m + 8);
    const int large = _mm256_movemask_ps(_mm256_cmp_ps(_mm256_max_ps(m0, m1), _mm256_set1_ps(0.5f), _CMP_GT_OQ));
    if (!large && p->lo == -128 && p->hi == 127)
        lb_w4_put_rows(p, 1, sums, row, rows, n, bias, m0, m1);
    else
        lb_w4_put_rows(p, 0, sums, row, rows, n, bias, m0, m1);
}

/* v, or 0 in the place of NaN, as lb_round_clamp has it: sums of scaled segments may be infinities of both signs. */
LB_INLINE __m256 lb_w4_numbers(__m256 v) {
    return _mm256_and_ps(v, _mm256_cmp_ps(v, v, _CMP_ORD_Q));
}

/* The same from scaled sums that still want their bias, and the scale of their row if it has one and there are more segments than one. */
LB_INLINE void lb_w4_put_total(const lb_w4_product *p, const lb_result to, const float *total, const float bias[LB_W4_PANEL], ptrdiff_t row,
                               ptrdiff_t n, ptrdiff_t width) {
    __m256 y[2];
    for (int h = 0; h < 2; h++) {
        y[h] = _mm256_load_ps(total + 8 * h);
        if (p->x_scales && p->cut.segments > 1)
            y[h] = _mm256_mul_ps(y[h], _mm256_broadcast_ss(p->x_scales + row));
        y[h] = _mm256_add_ps(y[h], _mm256_load_ps(bias + 8 * h));
        if (to != LB_TO_F32)
            y[h] = lb_w4_numbers(_mm256_div_ps(y[h], _mm256_set1_ps(p->y_scale)));
    }
    lb_w4_put(p, to, y, row, n, width);
}

/* The same from sums: integers of one segment, which are scaled in place if they have a bias of reals, or a scaled sum. */
LB_INLINE void lb_w4_epilogue(const lb_w4_product *p, const lb_result to, int32_t *sums, ptrdiff_t row, ptrdiff_t n, ptrdiff_t width,
                              const int32_t start[LB_W4_PANEL], const float m[LB_W4_PANEL]) {
    __m256 y[2];
    for (int h = 0; h < 2 && (!p->real_bias || p->cut.segments == 1); h++) {
        const __m256i acc = _mm256_load_si256((const __m256i *)(const void *)(sums + 8 * h));
        __m256 scale = _mm256_load_ps(m + 8 * h);
        if (!p->real_bias) { /* start is the bias, m the multiplier */
            const __m256i sum = _mm256_add_epi32(acc, _mm256_load_si256((const __m256i *)(const void *)(start + 8 * h)));
            y[h] = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), scale);
            continue;
        }
        if (p->x_scales) /* start is the bias as reals, m the scale of a single segment */
            scale = _mm256_mul_ps(_mm256_broadcast_ss(p->x_scales + row), scale);
        const __m256 t = _mm256_add_ps(_mm256_setzero_ps(), _mm256_mul_ps(_mm256_cvtepi32_ps(acc), scale));
        _mm256_store_ps((float *)(void *)(sums + 8 * h), t);
    }
    if (p->real_bias)
        lb_w4_put_total(p, to, (const float *)(const void *)sums, (const float *)(const void *)start, row, n, width);
    else
        lb_w4_put(p, to, y, row, n, width);
}

#endif
