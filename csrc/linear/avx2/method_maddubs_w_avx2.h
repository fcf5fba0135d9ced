/* maddubs_w: bytes by vpmaddubsw, quads grouped by their weights (maddubs_weights_avx2.h). */
#ifndef LB_METHOD_MADDUBS_W_AVX2_H
#define LB_METHOD_MADDUBS_W_AVX2_H

#include "linear/avx2/product_avx2.h"
#include "linear/avx2/maddubs_weights_avx2.h"

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

static void lb_maddubs_w_put(const lb_rows *s, ptrdiff_t i, ptrdiff_t rows, const int8_t *x, int32_t k, int32_t x_zero) {
    (void)x_zero;
    for (ptrdiff_t end = i + rows; i < end; i++, x += k)
        lb_flip_row(x, k, s->a + i * s->stride);
}

static void lb_maddubs_w_multiply(const lb_product *p, const lb_rows *s, ptrdiff_t first, ptrdiff_t rows, ptrdiff_t left, ptrdiff_t right) {
    const lb_maddubs_w_panel *own = (const lb_maddubs_w_panel *)(const void *)lb_own_weights(p);
    for (ptrdiff_t n = left; n < right; n += LB_MADDUBS_W_COLUMNS) {
        const lb_panel_work t = {p, s, first, n, {lb_eight_at(p, n, right)}, NULL, 0};
        lb_maddubs_w_multiply_panel(&t, rows, own + n / LB_MADDUBS_W_COLUMNS * lb_maddubs_w_chunks(p->k));
    }
}

static const lb_method lb_maddubs_w_method = {LB_PLUS_128, lb_maddubs_w_rows_at, lb_maddubs_w_put, NULL, lb_maddubs_w_multiply};

#endif
