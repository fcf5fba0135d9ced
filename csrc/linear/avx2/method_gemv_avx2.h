/* gemv: one row at a time, each weight read once (gemv_avx2.h); gemv_u8 for activations near -128. */
#ifndef LB_METHOD_GEMV_AVX2_H
#define LB_METHOD_GEMV_AVX2_H

#include "linear/avx2/product_avx2.h"

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
LB_INLINE void lb_gemv_panels(const int unsigned_x, const lb_product *p, const lb_rows *s, ptrdiff_t first, ptrdiff_t rows, ptrdiff_t left,
                              ptrdiff_t right) {
    const uint8_t *own = (const uint8_t *)lb_own_weights(p);
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

static void lb_gemv_put(const lb_rows *s, ptrdiff_t i, ptrdiff_t rows, const int8_t *x, int32_t k, int32_t x_zero) {
    for (ptrdiff_t end = i + rows; i < end; i++, x += k)
        lb_gemv_row((lb_gemv *)(void *)(s->a + i * s->stride), x, k, x_zero, 4 * LB_GEMV_COLUMNS, 0);
}

static void lb_gemv_u8_put(const lb_rows *s, ptrdiff_t i, ptrdiff_t rows, const int8_t *x, int32_t k, int32_t x_zero) {
    (void)x_zero;
    for (ptrdiff_t end = i + rows; i < end; i++, x += k)
        lb_gemv_row((lb_gemv *)(void *)(s->a + i * s->stride), x, k, -128, 4 * LB_GEMV_COLUMNS, 1);
}

static void lb_gemv_multiply(const lb_product *p, const lb_rows *s, ptrdiff_t first, ptrdiff_t rows, ptrdiff_t left, ptrdiff_t right) {
    lb_gemv_panels(0, p, s, first, rows, left, right);
}

static void lb_gemv_u8_multiply(const lb_product *p, const lb_rows *s, ptrdiff_t first, ptrdiff_t rows, ptrdiff_t left, ptrdiff_t right) {
    lb_gemv_panels(1, p, s, first, rows, left, right);
}

static const lb_method lb_gemv_u8_method = {LB_PLUS_128, lb_gemv_rows_at, lb_gemv_u8_put, NULL, lb_gemv_u8_multiply};
static const lb_method lb_gemv_method = {LB_LESS_ZERO, lb_gemv_rows_at, lb_gemv_put, NULL, lb_gemv_multiply};

#endif
