/* The part of a product of packed rows with packed weights that conv_s8 and linear_s8 share: all panels of some columns, and what
 * becomes of the accumulators. */
#ifndef LB_PRODUCT_AVX2_H
#define LB_PRODUCT_AVX2_H

#include "lb_gemm_s8_tiles_avx2.h"
#include "lb_requantize_avx2.h"

typedef struct {
    lb_cut cut;
    const void *packed;
    int32_t n; /* columns of the packed weights */
    const int32_t *bias;
    const float *multiplier;
    void *out; /* row 0, column 0 */
    ptrdiff_t out_stride;
    lb_result to;
    lb_clamp16 clamp;       /* of LB_TO_S8 */
    int32_t y_zero, lo, hi; /* of LB_TO_S16 */
} lb_product;

/* Columns left ... right - 1 (left is a multiple of LB_PANEL) of the `rows` rows in s, which are rows first, first + 1, ... of out. */
static inline void lb_multiply(const lb_product *p, const lb_scratch *s, ptrdiff_t first, ptrdiff_t rows, ptrdiff_t left, ptrdiff_t right) {
    const int16_t *panels = lb_b_panels(p->packed, p->n, p->cut);
    const int32_t *b_pairs = lb_b_pairs(p->packed);
    for (ptrdiff_t n = left; n < right; n += LB_PANEL) {
        const ptrdiff_t width = right - n < LB_PANEL ? right - n : LB_PANEL;
        _Alignas(32) int32_t start[LB_PANEL];
        _Alignas(32) float m[LB_PANEL];
        lb_load16(p->bias + n, width, start);
        lb_load16(p->multiplier + n, width, m);
        const __m256 m0 = _mm256_load_ps(m), m1 = _mm256_load_ps(m + 8);
        const __m256i s0 = _mm256_add_epi32(_mm256_load_si256((const __m256i *)(const void *)start),
                                            _mm256_load_si256((const __m256i *)(const void *)(b_pairs + n)));
        const __m256i s1 = _mm256_add_epi32(_mm256_load_si256((const __m256i *)(const void *)(start + 8)),
                                            _mm256_load_si256((const __m256i *)(const void *)(b_pairs + n + 8)));
        lb_segment(s, rows, s->a, s->a_pairs, panels + n * p->cut.depth, p->cut.depth);
        for (ptrdiff_t i = 0; i < rows; i++) {
            const __m256i *acc = (const __m256i *)(const void *)(s->acc + i * LB_PANEL);
            const __m256i c0 = _mm256_add_epi32(acc[0], s0), c1 = _mm256_add_epi32(acc[1], s1);
            const ptrdiff_t at = (first + i) * p->out_stride + n;
            if (p->to == LB_TO_F32) {
                const __m256 y[2] = {_mm256_mul_ps(_mm256_cvtepi32_ps(c0), m0), _mm256_mul_ps(_mm256_cvtepi32_ps(c1), m1)};
                memcpy((float *)p->out + at, y, 4 * (size_t)width);
            } else if (p->to == LB_TO_S16)
                lb_store_words((int16_t *)p->out + at, c0, c1, m0, m1, p->y_zero, p->lo, p->hi, width);
            else
                lb_store_bytes((int8_t *)p->out + at, lb_requantize16(c0, c1, m0, m1, &p->clamp), width);
        }
    }
}

#endif
