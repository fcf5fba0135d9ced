/* What becomes of the sums of 4-bit weights on AVX-512: as w4_epilogue_avx2.h has it, of one or two panels of a row. */
#ifndef LB_W4_EPILOGUE_AVX512_H
#define LB_W4_EPILOGUE_AVX512_H

#include "int4/w4_rows_avx2.h"

/* Some columns: what is added to integers, what multiplies them, and what is added to reals. And what all have in common: a divisor as in
 * divide_avx2.h, limits and the zero point of results, as registers, which stores to memory do not touch. */
typedef struct {
    __m512i start[2];
    __m512 scale[2], bias[2];
    ptrdiff_t n, width;
    int divides;
    __m512 d, r, rest, far, least, most;
    __m512i zero;
} lb_w4_columns;

/* `start`, if there is one, holds what sums lack. */
static inline lb_w4_columns lb_w4_columns_at(const lb_w4_product *p, ptrdiff_t n, ptrdiff_t width, const int32_t *start) {
    lb_w4_columns c = {.n = n,
                       .width = width,
                       .divides = lb_divides(p->y_scale),
                       .d = _mm512_set1_ps(p->y_scale),
                       .r = _mm512_set1_ps(_mm256_cvtss_f32(p->by.r)),
                       .rest = _mm512_set1_ps(_mm256_cvtss_f32(p->by.rest)),
                       .far = _mm512_set1_ps(_mm256_cvtss_f32(p->by.most)),
                       .least = _mm512_set1_ps((float)(p->lo - p->y_zero)),
                       .most = _mm512_set1_ps((float)(p->hi - p->y_zero)),
                       .zero = _mm512_set1_epi32(p->y_zero)};
    for (int j = 0; j < 2; j++) {
        const ptrdiff_t some = width - 16 * j, at = n + 16 * j;
        const __mmask16 mask = lb_first16(some);
        const __m512i sum = start ? _mm512_load_si512(start + 16 * j) : _mm512_setzero_si512();
        c.start[j] = p->bias ? _mm512_add_epi32(sum, _mm512_maskz_loadu_epi32(mask, p->bias + at)) : sum;
        c.bias[j] = p->real_bias ? _mm512_maskz_loadu_ps(mask, p->real_bias + at) : _mm512_setzero_ps();
        c.scale[j] = p->cut.segments == 1 ? _mm512_maskz_loadu_ps(mask, p->scales + at) : _mm512_setzero_ps();
    }
    return c;
}

LB_INLINE __m512 lb_w4_divided(const lb_w4_columns *c, __m512 x) {
    x = _mm512_max_ps(_mm512_min_ps(x, c->far), _mm512_sub_ps(_mm512_setzero_ps(), c->far));
    const __m512 q = _mm512_fmadd_ps(x, c->r, _mm512_mul_ps(x, c->rest));
    return _mm512_fmadd_ps(_mm512_fnmadd_ps(q, c->d, x), c->r, q);
}

/* The first `width` of 16 results. Reals are limited before they are rounded: the limits are integers. */
LB_INLINE void lb_w4_put(const lb_w4_product *p, const lb_result to, const lb_w4_columns *c, __m512 y, ptrdiff_t at, ptrdiff_t width) {
    if (to == LB_TO_F32) {
        if (width >= 16)
            _mm512_storeu_ps((float *)p->out + at, y);
        else
            _mm512_mask_storeu_ps((float *)p->out + at, lb_first16(width), y);
        return;
    }
    const __m512i q = _mm512_add_epi32(_mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(y, c->least), c->most)), c->zero);
    if (to == LB_TO_S8)
        lb_store_bytes((int8_t *)p->out + at, _mm512_cvtsepi32_epi8(q), width);
    else {
        const __m256i words = _mm256_packs_epi32(_mm512_castsi512_si256(q), _mm512_extracti64x4_epi64(q, 1));
        const __m256i ordered = _mm256_permute4x64_epi64(words, 0xD8);
        memcpy((int16_t *)p->out + at, &ordered, 2 * (size_t)(width < 16 ? width : 16));
    }
}

/* 16 reals that have all but their scale. Sums of scaled segments may be NaN, infinities of both signs: 0, as lb_round_clamp has it. */
LB_INLINE void lb_w4_put_real(const lb_w4_product *p, const lb_result to, const lb_w4_columns *c, __m512 t, ptrdiff_t at, ptrdiff_t width) {
    if (to != LB_TO_F32) {
        t = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(t, t, _CMP_ORD_Q), t);
        t = c->divides ? lb_w4_divided(c, t) : _mm512_div_ps(t, c->d);
    }
    lb_w4_put(p, to, c, t, at, width);
}

/* A row of scaled sums, of one panel or two. */
LB_INLINE void lb_w4_put_totals(const lb_w4_product *p, const lb_result to, const lb_w4_columns *c, const int32_t *sums, ptrdiff_t row) {
    for (int j = 0; 16 * j < c->width; j++) {
        __m512 t = _mm512_load_ps((const float *)(const void *)(sums + 16 * j));
        if (p->x_scales)
            t = _mm512_mul_ps(t, _mm512_set1_ps(p->x_scales[row]));
        lb_w4_put_real(p, to, c, _mm512_add_ps(t, c->bias[j]), row * p->out_stride + c->n + 16 * j, c->width - 16 * j);
    }
}

/* A row of integers of one segment. */
LB_INLINE void lb_w4_put_sums(const lb_w4_product *p, const lb_result to, const lb_w4_columns *c, const int32_t *sums, ptrdiff_t row) {
    for (int j = 0; 16 * j < c->width; j++) {
        const ptrdiff_t at = row * p->out_stride + c->n + 16 * j, width = c->width - 16 * j;
        const __m512 sum = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_load_si512(sums + 16 * j), c->start[j]));
        if (!p->real_bias) {
            lb_w4_put(p, to, c, _mm512_mul_ps(sum, c->scale[j]), at, width);
            continue;
        }
        const __m512 scale = p->x_scales ? _mm512_mul_ps(_mm512_set1_ps(p->x_scales[row]), c->scale[j]) : c->scale[j];
        const __m512 t = _mm512_add_ps(_mm512_setzero_ps(), _mm512_mul_ps(sum, scale));
        lb_w4_put_real(p, to, c, _mm512_add_ps(t, c->bias[j]), at, width);
    }
}

#endif
