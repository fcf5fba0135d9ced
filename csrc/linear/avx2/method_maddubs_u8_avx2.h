/* maddubs_u8: bytes by vpmaddubsw, quads grouped by the activations of a block of rows (maddubs_u8_avx2.h); in halves of four bits
 * where those are too large (nibbles_avx2.h). */
#ifndef LB_METHOD_MADDUBS_U8_AVX2_H
#define LB_METHOD_MADDUBS_U8_AVX2_H

#include "linear/avx2/product_avx2.h"
#include "linear/avx2/maddubs_u8_avx2.h"
#include "linear/avx2/nibbles_avx2.h"

LB_INLINE void lb_nibbles_rows(const int rows, const lb_panel_work *t, ptrdiff_t i, const int8_t *w) {
    __m256i c[LB_NIBBLE_ROWS][2];
    LB_UNROLL
    for (int r = 0; r < rows; r++)
        c[r][0] = t->e[0].start, c[r][1] = t->e[1].start;
    const ptrdiff_t at = i * t->s->stride;
    lb_nibbles_tile(rows, t->s->a + at, t->s->low + at, t->s->stride, w, lb_round_up(t->p->k, LB_NIBBLE_STEP), c);
    lb_epilogue16(rows, t->p, t->first + i, t->n, c, t->e);
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

/* A single row after threes would cost as much as two: four are two and two. */
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

static void lb_maddubs_u8_put(const lb_rows *s, ptrdiff_t i, ptrdiff_t rows, const int8_t *x, int32_t k, int32_t x_zero) {
    (void)x_zero;
    for (ptrdiff_t end = i + rows; i < end; i++, x += k)
        lb_maddubs_u8_row(s, i, x, k);
}

static void lb_maddubs_u8_prepare(const lb_rows *s, ptrdiff_t rows, int32_t k, int32_t x_zero) {
    (void)x_zero;
    lb_maddubs_u8_schedule(s, rows, k);
}

static void lb_maddubs_u8_multiply(const lb_product *p, const lb_rows *s, ptrdiff_t first, ptrdiff_t rows, ptrdiff_t left,
                                   ptrdiff_t right) {
    const ptrdiff_t depth = lb_round_up(p->k, LB_NIBBLE_STEP);
    for (ptrdiff_t n = left; n < right; n += LB_PANEL) {
        const int8_t *w = (const int8_t *)lb_own_weights(p) + n * depth;
        lb_panel_work t = lb_panel_work_at(p, s, first, n, right);
        t.bytes = LB_PANEL * depth;
        t.next = n + LB_PANEL < right && !lb_maddubs_u8_is_few(depth) ? (const char *)w + t.bytes : NULL;
        lb_maddubs_u8_panel(&t, rows, w);
    }
}

static const lb_method lb_maddubs_u8_method = {LB_PLUS_128, lb_maddubs_u8_rows_at, lb_maddubs_u8_put, lb_maddubs_u8_prepare,
                                               lb_maddubs_u8_multiply};

#endif
