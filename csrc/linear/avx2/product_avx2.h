/* The part of a product of rows with packed weights that conv_s8 and linear_s8 share, for every method: what a method is, and how
 * accumulators leave as results. */
#ifndef LB_PRODUCT_AVX2_H
#define LB_PRODUCT_AVX2_H

#include "linear/avx2/weights_avx2.h"
#include "base/requantize_avx2.h"
#include "base/unroll.h"

enum { LB_PLAIN_ROWS = 6 };

typedef struct lb_method lb_method;

typedef struct {
    const lb_method *method;
    const void *packed;
    int32_t k, n; /* of the packed weights */
    int32_t x_zero;
    const int32_t *bias;
    const float *multiplier;
    void *out; /* row 0, column 0 */
    ptrdiff_t out_stride;
    lb_result to;
    lb_clamp16 clamp;       /* of LB_TO_S8 */
    int32_t y_zero, lo, hi; /* of LB_TO_S16 */
} lb_product;

/* How activations stand in scratch: as they are, less their zero point, or plus 128. */
typedef enum { LB_AS_THEY_ARE, LB_LESS_ZERO, LB_PLUS_128 } lb_offset;

/* A method is a value, one file each (method_*.h); linear_s8_pack chooses one by its bound and its cost (README.md of this folder).
 *
 *   rows_at   the parts of scratch for blocks of m rows
 *   put_rows  rows i ... of s from `rows` rows of k activations that stand one after the other. Blocks are filled in order: the bytes
 *             after a row may be written before they are there
 *   prepare   when all rows of a block are there, before they are multiplied; NULL: nothing to do
 *   multiply  columns left ... right - 1 (left is a multiple of LB_PANEL) of the rows in s, which are rows first ... of out */
struct lb_method {
    lb_offset offset;
    lb_rows_fn *rows_at;
    void (*put_rows)(const lb_rows *s, ptrdiff_t i, ptrdiff_t rows, const int8_t *x, int32_t k, int32_t x_zero);
    void (*prepare)(const lb_rows *s, ptrdiff_t rows, int32_t k, int32_t x_zero);
    void (*multiply)(const lb_product *p, const lb_rows *s, ptrdiff_t first, ptrdiff_t rows, ptrdiff_t left, ptrdiff_t right);
};

/* Where the method's own part of the weights begins. */
static inline const char *lb_own_weights(const lb_product *p) {
    return (const char *)p->packed + lb_weights_front(p->n);
}

/* What the accumulators of eight columns begin with, and the multipliers of their results. */
typedef struct {
    __m256i start;
    __m256 m;
    ptrdiff_t width; /* how many of the columns there are */
    int bare;        /* whether lb_requantize32_bare will do; of the first of two: for both, to bytes, and that all columns are there */
} lb_eight;

static inline lb_eight lb_eight_at(const lb_product *p, ptrdiff_t n, ptrdiff_t right) {
    const ptrdiff_t width = right - n < 0 ? 0 : right - n < 8 ? right - n : 8;
    const lb_offset offset = p->method->offset;
    const int32_t zero = offset == LB_LESS_ZERO ? 0 : p->x_zero + (offset == LB_PLUS_128 ? 128 : 0);
    __m256i bias = _mm256_setzero_si256(), m = bias;
    if (width == 8) {
        bias = _mm256_loadu_si256((const __m256i *)(const void *)(p->bias + n));
        m = _mm256_castps_si256(_mm256_loadu_ps(p->multiplier + n));
    } else {
        memcpy(&bias, p->bias + (width ? n : 0), 4 * (size_t)width);
        memcpy(&m, p->multiplier + (width ? n : 0), 4 * (size_t)width);
    }
    const __m256i sums = _mm256_load_si256((const __m256i *)(const void *)(lb_weight_sums(p->packed) + n));
    const __m256i added = _mm256_load_si256((const __m256i *)(const void *)(lb_weight_added(p->packed, p->n) + n));
    const __m256i start = _mm256_sub_epi32(_mm256_add_epi32(bias, added), _mm256_mullo_epi32(sums, _mm256_set1_epi32(zero)));
    const int large = _mm256_movemask_ps(_mm256_cmp_ps(_mm256_castsi256_ps(m), _mm256_set1_ps(0.5f), _CMP_GT_OQ));
    return (lb_eight){start, _mm256_castsi256_ps(m), width, !large && p->lo == -128 && p->hi == 127};
}

LB_INLINE void lb_store_floats(float *out, __m256i acc, __m256 m, ptrdiff_t width) {
    const __m256 y = _mm256_mul_ps(_mm256_cvtepi32_ps(acc), m);
    if (width == 8)
        _mm256_storeu_ps(out, y);
    else
        memcpy(out, &y, 4 * (size_t)width);
}

/* Results of a row: 16 columns from n on. */
LB_INLINE void lb_epilogue(const lb_product *p, ptrdiff_t row, ptrdiff_t n, const __m256i c[2], const lb_eight e[2]) {
    const ptrdiff_t at = row * p->out_stride + n, width = e[0].width + e[1].width;
    if (p->to == LB_TO_F32) {
        lb_store_floats((float *)p->out + at, c[0], e[0].m, e[0].width);
        if (e[1].width)
            lb_store_floats((float *)p->out + at + 8, c[1], e[1].m, e[1].width);
    } else if (p->to == LB_TO_S16)
        lb_store_words((int16_t *)p->out + at, c[0], c[1], e[0].m, e[1].m, p->y_zero, p->lo, p->hi, width);
    else
        lb_store_bytes((int8_t *)p->out + at, lb_requantize16(c[0], c[1], e[0].m, e[1].m, &p->clamp), width);
}

/* Results of `rows` rows: 16 columns from n on, of any kind. Bytes of full panels are made of two rows at a time. */
static __attribute__((noinline)) void lb_epilogue_any(const int rows, const lb_product *p, ptrdiff_t row, ptrdiff_t n, const __m256i c[][2],
                                                      const lb_eight *e) {
    int r = 0;
    if (p->to == LB_TO_S8 && e[1].width == 8)
        for (; r + 2 <= rows; r += 2) {
            const __m256i bytes = lb_requantize32(c[r], c[r + 1], e[0].m, e[1].m, &p->clamp);
            int8_t *out = (int8_t *)p->out + (row + r) * p->out_stride + n;
            _mm_storeu_si128((__m128i *)(void *)out, _mm256_castsi256_si128(bytes));
            _mm_storeu_si128((__m128i *)(void *)(out + p->out_stride), _mm256_extracti128_si256(bytes, 1));
        }
    for (; r < rows; r++)
        lb_epilogue(p, row + r, n, c[r], e);
}

/* The same, where what most layers need is at hand: the end of a short product takes as long as its middle. */
LB_INLINE void lb_epilogue16(const int rows, const lb_product *p, ptrdiff_t row, ptrdiff_t n, __m256i c[][2], const lb_eight e[2]) {
    if (p->to == LB_TO_F32 && e[1].width == 8) {
        float *out = (float *)p->out + row * p->out_stride + n;
        LB_UNROLL
        for (int r = 0; r < rows; r++, out += p->out_stride) {
            _mm256_storeu_ps(out, _mm256_mul_ps(_mm256_cvtepi32_ps(c[r][0]), e[0].m));
            _mm256_storeu_ps(out + 8, _mm256_mul_ps(_mm256_cvtepi32_ps(c[r][1]), e[1].m));
        }
        return;
    }
    if (!e[0].bare) {
        __m256i copy[LB_PLAIN_ROWS][2]; /* c itself stays in registers */
        LB_UNROLL
        for (int r = 0; r < rows; r++)
            copy[r][0] = c[r][0], copy[r][1] = c[r][1];
        lb_epilogue_any(rows, p, row, n, (const __m256i(*)[2])copy, e);
        return;
    }
    int8_t *out = (int8_t *)p->out + row * p->out_stride + n;
    LB_UNROLL
    for (int r = 0; r < rows; r += 2) {
        const __m256i bytes = lb_requantize32_bare(c[r], c[r + 1 < rows ? r + 1 : r], e[0].m, e[1].m, p->clamp.zero_point);
        _mm_storeu_si128((__m128i *)(void *)(out + r * p->out_stride), _mm256_castsi256_si128(bytes));
        if (r + 1 < rows)
            _mm_storeu_si128((__m128i *)(void *)(out + (r + 1) * p->out_stride), _mm256_extracti128_si256(bytes, 1));
    }
}

/* Results of `rows` rows: eight columns from n on. Bytes are made of two rows at a time. */
LB_INLINE void lb_epilogue8(const int rows, const lb_product *p, ptrdiff_t row, ptrdiff_t n, const __m256i c[LB_MADDUBS_W_ROWS],
                            lb_eight e) {
    LB_UNROLL
    for (int i = 0; i < rows; i++) {
        const ptrdiff_t at = (row + i) * p->out_stride + n;
        if (p->to == LB_TO_F32)
            lb_store_floats((float *)p->out + at, c[i], e.m, e.width);
        else if (p->to == LB_TO_S16)
            lb_store_words((int16_t *)p->out + at, c[i], c[i], e.m, e.m, p->y_zero, p->lo, p->hi, e.width);
        else if (i % 2 == 0) {
            const __m128i bytes = lb_requantize16(c[i], c[i + 1 < rows ? i + 1 : i], e.m, e.m, &p->clamp);
            int8_t *out = (int8_t *)p->out + at;
            if (e.width == 8)
                _mm_storel_epi64((__m128i *)(void *)out, bytes);
            else
                lb_store_bytes(out, bytes, e.width);
            if (i + 1 < rows && e.width == 8)
                _mm_storel_epi64((__m128i *)(void *)(out + p->out_stride), _mm_unpackhi_epi64(bytes, bytes));
            else if (i + 1 < rows)
                lb_store_bytes(out + p->out_stride, _mm_unpackhi_epi64(bytes, bytes), e.width);
        }
    }
}

/* ---- one panel of columns from n on, rows i ... i + rows - 1 of s, which are rows first + i ... of out ---- */

typedef struct {
    const lb_product *p;
    const lb_rows *s;
    ptrdiff_t first, n;
    lb_eight e[2];
    const char *next; /* weights that are multiplied after this panel, or NULL */
    ptrdiff_t bytes;  /* of them */
} lb_panel_work;

/* 16 columns from n on. */
LB_INLINE lb_panel_work lb_panel_work_at(const lb_product *p, const lb_rows *s, ptrdiff_t first, ptrdiff_t n, ptrdiff_t right) {
    lb_panel_work t = {p, s, first, n, {lb_eight_at(p, n, right), lb_eight_at(p, n + 8, right)}, NULL, 0};
    t.e[0].bare &= t.e[1].bare && t.e[1].width == 8 && p->to == LB_TO_S8;
    return t;
}

/* Weights come from far away where a layer has many of them: with tile i of `tiles` a part of the next panel is prefetched, so that it
 * is in a cache when its time comes. */
LB_INLINE void lb_prefetch_next(const lb_panel_work *t, ptrdiff_t i, ptrdiff_t tiles) {
    if (!t->next)
        return;
    const char *end = t->next + t->bytes * (i + 1) / tiles;
    for (const char *at = t->next + t->bytes * i / tiles; at < end; at += 64)
        _mm_prefetch(at, _MM_HINT_T1);
}

#endif
