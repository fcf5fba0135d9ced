/* The part of a product of rows with packed weights that conv_s8 and linear_s8 share: rows are brought into the form that the weights'
 * method wants, all panels of some columns are multiplied, and the accumulators leave as results. */
#ifndef LB_PRODUCT_AVX2_H
#define LB_PRODUCT_AVX2_H

#include "linear/avx2/maddubs_weights_avx2.h"
#include "linear/avx2/maddubs_u8_avx2.h"
#include "base/madd_avx2.h"
#include "linear/avx2/maddubs_s8_avx2.h"
#include "linear/avx2/nibbles_avx2.h"
#include "base/requantize_avx2.h"

enum {
    LB_PLAIN_ROWS = 6,
    LB_LONG = 1024, /* k from which on a panel of madd16 does not stay in the first-level cache, and is cut into chunks */
    LB_FAR = 4096,  /* bytes of a panel that is not worth asking for */
    LB_MADDUBS_S8_PANELS = 2,
    LB_MADDUBS_S8_CACHED = 1 << 13 /* bytes of a panel of maddubs_s8 up to which some stay in a first-level cache together */
};

typedef struct {
    lb_method method;
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

static inline lb_method lb_method_of(const void *packed) {
    return (lb_method)((const lb_weights_head *)packed)->method;
}

/* n bytes as int16, and zeros behind them up to a multiple of 16. */
static inline void lb_widen(const int8_t *from, ptrdiff_t n, int16_t *to) {
    for (ptrdiff_t i = 0; i < n; i += 16) {
        __m128i v;
        if (n - i >= 16)
            v = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
        else if (n - i == 8)
            v = _mm_loadl_epi64((const __m128i *)(const void *)(from + i));
        else {
            v = _mm_setzero_si128();
            memcpy(&v, from + i, (size_t)(n - i));
        }
        _mm256_storeu_si256((__m256i *)(void *)(to + i), _mm256_cvtepi8_epi16(v));
    }
}

/* Row i of s = k activations. Rows come one after the other: what is behind a row may be written before it is there. */
static inline void lb_put_row(const lb_rows *s, lb_method method, ptrdiff_t i, const int8_t *a, int32_t k, int32_t x_zero) {
    uint8_t *out = s->a + i * s->stride;
    if (method == LB_PLAIN)
        lb_widen(a, k, (int16_t *)(void *)out);
    else if (method == LB_MADDUBS_W)
        lb_flip_row(a, k, out);
    else if (method == LB_MADDUBS_U8)
        lb_maddubs_u8_row(s, i, a, k);
    else if (method == LB_NIBBLES)
        lb_halve_row(a, k, out, s->low + i * s->stride);
    else if (method == LB_MADDUBS_S8)
        lb_maddubs_s8_row(s, i, a, k, x_zero);
    else if (method == LB_GEMV)
        lb_gemv_row((lb_gemv *)(void *)out, a, k, x_zero, 4 * LB_GEMV_COLUMNS, 0);
    else if (method == LB_GEMV_U8)
        lb_gemv_row((lb_gemv *)(void *)out, a, k, -128, 4 * LB_GEMV_COLUMNS, 1);
    else
        s->pairs[i] = lb_pack_row(a, k, 0, 0, (int16_t *)(void *)out);
}

/* When all rows of a block are there, before they are multiplied. */
static inline void lb_rows_are_there(const lb_rows *s, lb_method method, ptrdiff_t rows, int32_t k, int32_t x_zero) {
    if (method == LB_MADDUBS_U8)
        lb_maddubs_u8_schedule(s, rows, k);
    else if (method == LB_MADDUBS_S8) /* once: what was cut off its rows is gone when a tile is made */
        lb_maddubs_s8_fill(s, rows, k, x_zero);
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
    const int32_t zero =
        p->method == LB_MADDUBS_S8 || p->method == LB_GEMV ? 0 : p->x_zero + (p->method == LB_MADD16 || p->method == LB_PLAIN ? 0 : 128);
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

/* ---- the methods: one panel of columns from n on, rows i ... i + rows - 1 of s, which are rows first + i ... of out ---- */

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

LB_INLINE void lb_madd16_rows(const int rows, const lb_panel_work *t, ptrdiff_t i, const int16_t *b) {
    __m256i c[LB_TILE][2];
    LB_UNROLL
    for (int r = 0; r < rows; r++) {
        const __m256i pairs = _mm256_set1_epi32(t->s->pairs[i + r]);
        c[r][0] = _mm256_add_epi32(t->e[0].start, pairs), c[r][1] = _mm256_add_epi32(t->e[1].start, pairs);
    }
    const int16_t *a = (const int16_t *)(const void *)(t->s->a + i * t->s->stride);
    lb_steps(rows, a, t->s->stride / 2, b, lb_round_up(t->p->k, LB_STEP), c);
    lb_epilogue16(rows, t->p, t->first + i, t->n, c, t->e);
}

/* The same for the eight columns on the left of a panel that has no others. */
LB_INLINE void lb_madd16_half_rows(const int rows, const lb_panel_work *t, ptrdiff_t i, const int16_t *b) {
    __m256i c[LB_MADDUBS_W_ROWS];
    LB_UNROLL
    for (int r = 0; r < rows; r++)
        c[r] = _mm256_add_epi32(t->e[0].start, _mm256_set1_epi32(t->s->pairs[i + r]));
    const uint8_t *a = t->s->a + i * t->s->stride;
    for (const uint8_t *end = a + 2 * lb_round_up(t->p->k, LB_STEP); a < end; a += 8, b += 4 * LB_PANEL) {
        const __m256i odd = _mm256_load_si256((const __m256i *)(const void *)b);
        const __m256i even = _mm256_load_si256((const __m256i *)(const void *)(b + 2 * LB_PANEL));
        LB_UNROLL
        for (int r = 0; r < rows; r++) {
            const uint8_t *at = a + r * t->s->stride;
            const __m256i x = _mm256_add_epi16(lb_broadcast(at), odd), y = _mm256_add_epi16(lb_broadcast(at + 4), even);
            c[r] = _mm256_add_epi32(c[r], _mm256_madd_epi16(x, y));
        }
    }
    lb_epilogue8(rows, t->p, t->first + i, t->n, c, t->e[0]);
}

static inline void lb_madd16_panel(const lb_panel_work *t, ptrdiff_t rows, const int16_t *b) {
    const lb_rows *s = t->s;
    if (t->p->k > LB_LONG && rows > LB_TILE) {
        for (ptrdiff_t i = 0; i < rows; i++) {
            __m256i *acc = (__m256i *)(void *)(s->acc + i * LB_PANEL);
            const __m256i pairs = _mm256_set1_epi32(s->pairs[i]);
            acc[0] = _mm256_add_epi32(t->e[0].start, pairs), acc[1] = _mm256_add_epi32(t->e[1].start, pairs);
        }
        lb_long_steps(s->acc, rows, (const int16_t *)(const void *)s->a, s->stride / 2, b, lb_round_up(t->p->k, LB_STEP));
        for (ptrdiff_t i = 0; i < rows; i++)
            lb_epilogue(t->p, t->first + i, t->n, (const __m256i *)(const void *)(s->acc + i * LB_PANEL), t->e);
        return;
    }
    ptrdiff_t i = 0;
    if (!t->e[1].width) {
        for (; i + 6 <= rows; i += 6)
            lb_madd16_half_rows(6, t, i, b);
        for (; i < rows; i++)
            lb_madd16_half_rows(1, t, i, b);
        return;
    }
    for (; i + 4 <= rows; i += 4) {
        lb_prefetch_next(t, i / 4, rows / 4);
        lb_madd16_rows(4, t, i, b);
    }
    if (rows - i == 3)
        lb_madd16_rows(3, t, i, b);
    else if (rows - i == 2)
        lb_madd16_rows(2, t, i, b);
    else if (rows - i == 1)
        lb_madd16_rows(1, t, i, b);
}

LB_INLINE void lb_plain_rows(const int rows, const lb_panel_work *t, ptrdiff_t i, const int16_t *b) {
    __m256i c[LB_PLAIN_ROWS][2];
    LB_UNROLL
    for (int r = 0; r < rows; r++)
        c[r][0] = t->e[0].start, c[r][1] = t->e[1].start;
    const char *a = (const char *)t->s->a + i * t->s->stride;
    for (int32_t k = 0; k < t->p->k; k += 2, a += 4, b += 2 * LB_PANEL) {
        const __m256i w0 = _mm256_load_si256((const __m256i *)(const void *)b);
        const __m256i w1 = _mm256_load_si256((const __m256i *)(const void *)(b + LB_PANEL));
        LB_UNROLL
        for (int r = 0; r < rows; r++)
            lb_madd_pair(c[r], (const int16_t *)(const void *)(a + r * t->s->stride), w0, w1);
    }
    lb_epilogue16(rows, t->p, t->first + i, t->n, c, t->e);
}

static inline void lb_plain_panel(const lb_panel_work *t, ptrdiff_t rows, const int16_t *b) {
    ptrdiff_t i = 0;
    for (; i + 6 <= rows; i += 6)
        lb_plain_rows(6, t, i, b);
    for (; i + 2 <= rows; i += 2)
        lb_plain_rows(2, t, i, b);
    if (i < rows)
        lb_plain_rows(1, t, i, b);
}

LB_INLINE void lb_nibbles_rows(const int rows, const lb_panel_work *t, ptrdiff_t i, const int8_t *w) {
    __m256i c[LB_NIBBLE_ROWS][2];
    LB_UNROLL
    for (int r = 0; r < rows; r++)
        c[r][0] = t->e[0].start, c[r][1] = t->e[1].start;
    const ptrdiff_t at = i * t->s->stride;
    lb_nibbles_tile(rows, t->s->a + at, t->s->low + at, t->s->stride, w, lb_round_up(t->p->k, LB_NIBBLE_STEP), c);
    lb_epilogue16(rows, t->p, t->first + i, t->n, c, t->e);
}

LB_INLINE void lb_maddubs_s8_rows(const int rows, const lb_panel_work *t, ptrdiff_t tile, const uint8_t *w) {
    __m256i c[LB_MADDUBS_S8_ROWS][2];
    lb_maddubs_s8_products(rows, t->s, tile, w, c);
    LB_UNROLL
    for (int i = 0; i < rows; i++)
        c[i][0] = _mm256_add_epi32(c[i][0], t->e[0].start), c[i][1] = _mm256_add_epi32(c[i][1], t->e[1].start);
    lb_epilogue16(rows, t->p, t->first + tile * LB_MADDUBS_S8_ROWS, t->n, c, t->e);
}

/* Some panels, one behind the other: a tile of rows meets all of them while it is near. */
static inline void lb_maddubs_s8_panels(const lb_panel_work t[], int panels, ptrdiff_t rows, const uint8_t *w) {
    const ptrdiff_t tiles = (rows + LB_MADDUBS_S8_ROWS - 1) / LB_MADDUBS_S8_ROWS, bytes = LB_PANEL * lb_round_up(t->p->k, LB_STEP);
    for (ptrdiff_t tile = 0; tile < tiles; tile++) {
        lb_prefetch_next(t, tile, tiles);
        for (int i = 0; i < panels; i++)
            if (rows - tile * LB_MADDUBS_S8_ROWS >= LB_MADDUBS_S8_ROWS)
                lb_maddubs_s8_rows(LB_MADDUBS_S8_ROWS, t + i, tile, w + i * bytes);
            else if (rows - tile * LB_MADDUBS_S8_ROWS == 2)
                lb_maddubs_s8_rows(2, t + i, tile, w + i * bytes);
            else
                lb_maddubs_s8_rows(1, t + i, tile, w + i * bytes);
    }
}

static inline void lb_maddubs_s8_multiply(const lb_product *p, const lb_rows *s, ptrdiff_t first, ptrdiff_t rows, ptrdiff_t left,
                                          ptrdiff_t right) {
    const ptrdiff_t depth = lb_round_up(p->k, LB_STEP);
    const uint8_t *own = (const uint8_t *)p->packed + lb_weights_front(p->n);
    const int most = LB_PANEL * depth <= LB_MADDUBS_S8_CACHED ? LB_MADDUBS_S8_PANELS : 1;
    for (ptrdiff_t n = left; n < right;) {
        lb_panel_work t[LB_MADDUBS_S8_PANELS];
        int panels = 0;
        const uint8_t *w = own + n * depth;
        for (; panels < most && n < right; panels++, n += LB_PANEL)
            t[panels] = lb_panel_work_at(p, s, first, n, right);
        const ptrdiff_t left_over = right - n < most * LB_PANEL ? lb_round_up(right - n, LB_PANEL) : most * LB_PANEL;
        t->bytes = depth * left_over;
        t->next = left_over > 0 ? (const char *)own + n * depth : NULL;
        lb_maddubs_s8_panels(t, panels, rows, w);
    }
}

/* 16 columns, or 32: one panel or two. */
LB_INLINE void lb_gemv_columns(const int panels, const int unsigned_x, const lb_panel_work t[], ptrdiff_t rows, const uint8_t *w) {
    for (ptrdiff_t i = 0; i < rows; i++) {
        __m256i c[LB_GEMV_MOST];
        lb_gemv_products(2 * panels, unsigned_x, (const lb_gemv *)(const void *)(t->s->a + i * t->s->stride), w, 4 * LB_GEMV_COLUMNS, c);
        for (int panel = 0; panel < panels; panel++) {
            const lb_panel_work *own = t + panel;
            __m256i sums[1][2] = {{_mm256_add_epi32(c[2 * panel], own->e[0].start), _mm256_add_epi32(c[2 * panel + 1], own->e[1].start)}};
            lb_epilogue16(1, own->p, own->first + i, own->n, sums, own->e);
        }
    }
}

/* Panels of 32 columns, of which a part of the columns may begin or end in the middle of one. */
LB_INLINE void lb_gemv_multiply(const int unsigned_x, const lb_product *p, const lb_rows *s, ptrdiff_t first, ptrdiff_t rows,
                                ptrdiff_t left, ptrdiff_t right) {
    const uint8_t *own = (const uint8_t *)p->packed + lb_weights_front(p->n);
    for (ptrdiff_t n = left, columns; n < right; n += columns) {
        const uint8_t *w = own + n / LB_GEMV_COLUMNS * LB_GEMV_COLUMNS * lb_round_up(p->k, LB_GEMV_STEP) + n % LB_GEMV_COLUMNS * 4;
        lb_panel_work t[2];
        columns = n % LB_GEMV_COLUMNS || right - n <= LB_PANEL ? LB_PANEL : LB_GEMV_COLUMNS;
        for (int i = 0; i < columns / LB_PANEL; i++)
            t[i] = lb_panel_work_at(p, s, first, n + i * LB_PANEL, right);
        if (columns == LB_GEMV_COLUMNS)
            lb_gemv_columns(2, unsigned_x, t, rows, w);
        else
            lb_gemv_columns(1, unsigned_x, t, rows, w);
    }
}

LB_INLINE void lb_maddubs_w_rows(const int rows, const lb_panel_work *t, ptrdiff_t i, const lb_maddubs_w_panel *panel) {
    __m256i c[LB_MADDUBS_W_ROWS];
    LB_UNROLL
    for (int r = 0; r < rows; r++)
        c[r] = t->e[0].start;
    for (ptrdiff_t chunk = 0; chunk < lb_maddubs_w_chunks(t->p->k); chunk++)
        lb_maddubs_w_tile(rows, t->s->a + i * t->s->stride, t->s->stride, t->p->packed, panel + chunk, c);
    lb_epilogue8(rows, t->p, t->first + i, t->n, c, t->e[0]);
}

/* Tiles of up to six rows, as equal as can be: a single row at the end would cost as much as three. */
static inline void lb_maddubs_w_multiply_panel(const lb_panel_work *t, ptrdiff_t rows, const lb_maddubs_w_panel *panel) {
    ptrdiff_t tiles = (rows + LB_MADDUBS_W_ROWS - 1) / LB_MADDUBS_W_ROWS;
    for (ptrdiff_t i = 0; i < rows; tiles--) {
        const ptrdiff_t some = (rows - i + tiles - 1) / tiles;
        switch (some) {
        case 1:
            lb_maddubs_w_rows(1, t, i, panel);
            break;
        case 2:
            lb_maddubs_w_rows(2, t, i, panel);
            break;
        case 3:
            lb_maddubs_w_rows(3, t, i, panel);
            break;
        case 4:
            lb_maddubs_w_rows(4, t, i, panel);
            break;
        case 5:
            lb_maddubs_w_rows(5, t, i, panel);
            break;
        default:
            lb_maddubs_w_rows(6, t, i, panel);
        }
        i += some;
    }
}

static inline void lb_nibbles_panel(const lb_panel_work *t, ptrdiff_t rows, const int8_t *w) {
    ptrdiff_t i = 0;
    for (; i + LB_NIBBLE_ROWS <= rows; i += LB_NIBBLE_ROWS)
        lb_nibbles_rows(LB_NIBBLE_ROWS, t, i, w);
    if (i < rows)
        lb_nibbles_rows(1, t, i, w);
}

/* Rows of one chunk; sums of all but the last are kept in memory. */
LB_INLINE void lb_maddubs_u8_rows(const int rows, const int halves, const lb_panel_work *t, ptrdiff_t i, const int8_t *w, ptrdiff_t chunk,
                                  const int few, const int last) {
    __m256i c[LB_MADDUBS_U8_HALF_ROWS][2], *acc = (__m256i *)(void *)(t->s->acc + i * LB_PANEL);
    LB_UNROLL
    for (int r = 0; r < rows; r++)
        LB_UNROLL
    for (int half = 0; half < halves; half++)
        c[r][half] = chunk ? _mm256_load_si256(acc + 2 * r + half) : t->e[half].start;
    const lb_maddubs_u8_chunk *own = t->s->chunks + chunk;
    if (rows == 3 && halves == 2 && few)
        lb_maddubs_u8_few3(t->s->a + i * t->s->stride, t->s->stride, w, own, t->s->items, c);
    else if (rows == 3 && halves == 2)
        lb_maddubs_u8_tile3(t->s->a + i * t->s->stride, t->s->stride, w, own, t->s->items + own->first, c);
    else
        lb_maddubs_u8_tile(rows, halves, t->s->a + i * t->s->stride, t->s->stride, w, own, t->s->items + own->first, c);
    if (last && halves == 2)
        lb_epilogue16(rows, t->p, t->first + i, t->n, c, t->e);
    else if (last) {
        __m256i only[LB_MADDUBS_U8_HALF_ROWS];
        LB_UNROLL
        for (int r = 0; r < rows; r++)
            only[r] = c[r][0];
        lb_epilogue8(rows, t->p, t->first + i, t->n, only, t->e[0]);
    } else
        LB_UNROLL
    for (int r = 0; r < rows; r++)
        LB_UNROLL
    for (int half = 0; half < halves; half++)
        _mm256_store_si256(acc + 2 * r + half, c[r][half]);
}

/* A single row behind threes would cost as much as two: four are two and two. */
LB_INLINE void lb_maddubs_u8_chunk_rows(const lb_panel_work *t, ptrdiff_t rows, const int8_t *w, ptrdiff_t chunk, ptrdiff_t chunks,
                                        const int few, const int last) {
    if (!t->e[1].width) {
        ptrdiff_t i = 0;
        for (; i + LB_MADDUBS_U8_HALF_ROWS <= rows; i += LB_MADDUBS_U8_HALF_ROWS)
            lb_maddubs_u8_rows(LB_MADDUBS_U8_HALF_ROWS, 1, t, i, w, chunk, few, last);
        for (; i + 2 <= rows; i += 2)
            lb_maddubs_u8_rows(2, 1, t, i, w, chunk, few, last);
        if (i < rows)
            lb_maddubs_u8_rows(1, 1, t, i, w, chunk, few, last);
        return;
    }
    const ptrdiff_t all = (rows + LB_MADDUBS_U8_ROWS - 1) / LB_MADDUBS_U8_ROWS, most = rows % LB_MADDUBS_U8_ROWS == 1 ? rows - 4 : rows;
    ptrdiff_t i = 0, tile = chunk * all;
    for (; i + LB_MADDUBS_U8_ROWS <= most; i += LB_MADDUBS_U8_ROWS, tile++) {
        lb_prefetch_next(t, tile, chunks * all);
        lb_maddubs_u8_rows(LB_MADDUBS_U8_ROWS, 2, t, i, w, chunk, few, last);
    }
    for (; i + 2 <= rows; i += 2)
        lb_maddubs_u8_rows(2, 2, t, i, w, chunk, few, last);
    if (i < rows)
        lb_maddubs_u8_rows(1, 2, t, i, w, chunk, few, last);
}

static inline void lb_maddubs_u8_panel(const lb_panel_work *t, ptrdiff_t rows, const int8_t *w) {
    const ptrdiff_t chunks = (lb_round_up(t->p->k, LB_NIBBLE_STEP) + LB_MADDUBS_U8_CHUNK - 1) / LB_MADDUBS_U8_CHUNK;
    if (t->s->chunks->heavy) {
        lb_nibbles_panel(t, rows, w);
        return;
    }
    if (lb_maddubs_u8_is_few(lb_round_up(t->p->k, LB_NIBBLE_STEP))) {
        lb_maddubs_u8_chunk_rows(t, rows, w, 0, 1, 1, 1);
        return;
    }
    for (ptrdiff_t chunk = 0; chunk < chunks - 1; chunk++)
        lb_maddubs_u8_chunk_rows(t, rows, w, chunk, chunks, 0, 0);
    lb_maddubs_u8_chunk_rows(t, rows, w, chunks - 1, chunks, 0, 1);
}

/* Columns left ... right - 1 (left is a multiple of LB_PANEL) of the `rows` rows in s, which are rows first, first + 1, ... of out. */
static inline void lb_multiply(const lb_product *p, const lb_rows *s, ptrdiff_t first, ptrdiff_t rows, ptrdiff_t left, ptrdiff_t right) {
    const char *own = (const char *)p->packed + lb_weights_front(p->n);
    const ptrdiff_t columns = p->method == LB_MADDUBS_W ? LB_MADDUBS_W_COLUMNS : LB_PANEL;
    if (p->method == LB_GEMV || p->method == LB_GEMV_U8) {
        if (p->method == LB_GEMV)
            lb_gemv_multiply(0, p, s, first, rows, left, right);
        else
            lb_gemv_multiply(1, p, s, first, rows, left, right);
        return;
    }
    if (p->method == LB_MADDUBS_S8) {
        lb_maddubs_s8_multiply(p, s, first, rows, left, right);
        return;
    }
    for (ptrdiff_t n = left; n < right; n += columns) {
        lb_panel_work t = {p, s, first, n, {lb_eight_at(p, n, right)}, NULL, 0};
        if (p->method == LB_MADDUBS_W) {
            lb_maddubs_w_multiply_panel(
                &t, rows, (const lb_maddubs_w_panel *)(const void *)own + n / LB_MADDUBS_W_COLUMNS * lb_maddubs_w_chunks(p->k));
            continue;
        }
        t.e[1] = lb_eight_at(p, n + 8, right);
        t.e[0].bare &= t.e[1].bare && t.e[1].width == 8 && p->to == LB_TO_S8;
        if (p->method == LB_MADD16) {
            t.bytes = 2 * LB_PANEL * lb_round_up(p->k, LB_STEP);
            t.next = n + LB_PANEL < right && t.bytes > LB_FAR ? own + (n + LB_PANEL) * 2 * lb_round_up(p->k, LB_STEP) : NULL;
            lb_madd16_panel(&t, rows, (const int16_t *)(const void *)own + n * lb_round_up(p->k, LB_STEP));
        } else if (p->method == LB_PLAIN)
            lb_plain_panel(&t, rows, (const int16_t *)(const void *)own + n * lb_round_up(p->k, 2));
        else {
            const ptrdiff_t depth = lb_round_up(p->k, LB_NIBBLE_STEP);
            const int8_t *w = (const int8_t *)own + n * depth;
            if (p->method == LB_NIBBLES)
                lb_nibbles_panel(&t, rows, w);
            else {
                t.bytes = LB_PANEL * depth;
                t.next = n + LB_PANEL < right && !lb_maddubs_u8_is_few(depth) ? (const char *)w + t.bytes : NULL;
                lb_maddubs_u8_panel(&t, rows, w);
            }
        }
    }
}

#endif
