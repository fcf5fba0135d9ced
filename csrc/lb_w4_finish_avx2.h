/* What becomes of the sums of 4-bit weights. */
#ifndef LB_W4_FINISH_AVX2_H
#define LB_W4_FINISH_AVX2_H

#include "lb_w4_avx2.h"

/* 16 columns from n on of one row. */
LB_W4_INLINE void lb_w4_put(const lb_w4_product *p, const lb_result to, __m256 y[2], ptrdiff_t row, ptrdiff_t n, ptrdiff_t width) {
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

/* The same from scaled sums that still want their bias. */
LB_W4_INLINE void lb_w4_put_total(const lb_w4_product *p, const lb_result to, const float *total, const float bias[LB_W4_PANEL],
                                  ptrdiff_t row, ptrdiff_t n, ptrdiff_t width) {
    __m256 y[2];
    for (int h = 0; h < 2; h++) {
        y[h] = _mm256_add_ps(_mm256_load_ps(total + 8 * h), _mm256_load_ps(bias + 8 * h));
        if (to != LB_TO_F32)
            y[h] = _mm256_div_ps(y[h], _mm256_set1_ps(p->y_scale));
    }
    lb_w4_put(p, to, y, row, n, width);
}

/* The same from sums: integers of one segment, which are scaled in place if they have a bias of reals, or a scaled sum. */
LB_W4_INLINE void lb_w4_finish(const lb_w4_product *p, const lb_result to, int32_t *sums, ptrdiff_t row, ptrdiff_t n, ptrdiff_t width,
                               const float *x_scale, const int32_t start[LB_W4_PANEL], const float m[LB_W4_PANEL]) {
    __m256 y[2];
    for (int h = 0; h < 2 && (!p->real_bias || p->cut.segments == 1); h++) {
        const __m256i acc = _mm256_load_si256((const __m256i *)(const void *)(sums + 8 * h));
        __m256 scale = _mm256_load_ps(m + 8 * h);
        if (!p->real_bias) { /* start is the bias, m the multiplier */
            const __m256i sum = _mm256_add_epi32(acc, _mm256_load_si256((const __m256i *)(const void *)(start + 8 * h)));
            y[h] = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), scale);
            continue;
        }
        if (x_scale) /* start is the bias as reals, m the scale of a single segment */
            scale = _mm256_mul_ps(_mm256_broadcast_ss(x_scale), scale);
        const __m256 t = _mm256_add_ps(_mm256_setzero_ps(), _mm256_mul_ps(_mm256_cvtepi32_ps(acc), scale));
        _mm256_store_ps((float *)(void *)(sums + 8 * h), t);
    }
    if (p->real_bias)
        lb_w4_put_total(p, to, (const float *)(const void *)sums, (const float *)(const void *)start, row, n, width);
    else
        lb_w4_put(p, to, y, row, n, width);
}

#endif
