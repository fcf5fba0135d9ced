/* maddubs_s8: bytes by vpmaddubsw, quads grouped by differences from the zero point (maddubs_s8_avx2.h). */
#ifndef LB_METHOD_MADDUBS_S8_AVX2_H
#define LB_METHOD_MADDUBS_S8_AVX2_H

#include "linear/avx2/product_avx2.h"
#include "linear/avx2/maddubs_s8_avx2.h"

enum {
    LB_MADDUBS_S8_PANELS = 2,
    LB_MADDUBS_S8_CACHED = 1 << 13 /* bytes of a panel up to which some stay in a first-level cache together */
};

LB_INLINE void lb_maddubs_s8_rows(const int rows, const lb_panel_work *t, ptrdiff_t tile, const uint8_t *w) {
    __m256i c[LB_MADDUBS_S8_ROWS][2];
    lb_maddubs_s8_products(rows, t->s, tile, w, c);
    LB_UNROLL
    for (int i = 0; i < rows; i++)
        c[i][0] = _mm256_add_epi32(c[i][0], t->e[0].start), c[i][1] = _mm256_add_epi32(c[i][1], t->e[1].start);
    lb_epilogue16(rows, t->p, t->first + tile * LB_MADDUBS_S8_ROWS, t->n, c, t->e);
}

/* Some panels, one after the other: a tile of rows meets all of them while it is near. */
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

static void lb_maddubs_s8_multiply(const lb_product *p, const lb_rows *s, ptrdiff_t first, ptrdiff_t rows, ptrdiff_t left,
                                   ptrdiff_t right) {
    const ptrdiff_t depth = lb_round_up(p->k, LB_STEP);
    const uint8_t *own = (const uint8_t *)lb_own_weights(p);
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

static void lb_maddubs_s8_put_rows(const lb_rows *s, ptrdiff_t i, ptrdiff_t rows, const int8_t *x, int32_t k, int32_t x_zero) {
    for (ptrdiff_t end = i + rows; i < end; i++, x += k)
        lb_maddubs_s8_row(s, i, x, k, x_zero);
}

/* Once: what was cut off its rows is gone when a tile is made. */
static void lb_maddubs_s8_prepare(const lb_rows *s, ptrdiff_t rows, int32_t k, int32_t x_zero) {
    lb_maddubs_s8_fill(s, rows, k, x_zero);
}

static const lb_method lb_maddubs_s8_method = {LB_LESS_ZERO, lb_maddubs_s8_rows_at, lb_maddubs_s8_put_rows, lb_maddubs_s8_prepare,
                                               lb_maddubs_s8_multiply};

#endif
