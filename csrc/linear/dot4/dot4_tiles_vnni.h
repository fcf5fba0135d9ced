/* linear_s8 and conv_s8 by tiles of quads, after dot4_vnni.h and a header that defines
 *   lb_dot4_columns_at   what columns n ... n + width - 1 begin with, and their multipliers
 *   lb_dot4_epilogue       accumulators (rows x wide vectors) as results
 *   lb_dot4_put          n bytes, flipped
 * Tiles are two vectors wide; of few rows, where reading weights is what takes time, LB_WIDE. */
#ifndef LB_DOT4_TILES_VNNI_H
#define LB_DOT4_TILES_VNNI_H

LB_INLINE void lb_dot4_tile(const int rows, const int wide, const lb_dot4_product *p, const lb_dot4_result to, const lb_dot4_columns *c,
                            ptrdiff_t first, ptrdiff_t row) {
    lb_vec acc[2 * LB_ROWS];
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i++)
        LB_UNROLL_ALL
    for (int j = 0; j < wide; j++)
        acc[i * wide + j] = lb_vec_load(c->start + j * LB_LANES);
    if (to == LB_DOT4_F32) { /* large, and not near: asked for while products are made */
        const uintptr_t out = (uintptr_t)p->out + 4 * (uintptr_t)((first + row) * p->out_stride + c->n);
        LB_UNROLL_ALL
        for (int i = 0; i < rows; i++)
            LB_UNROLL_ALL
        for (int j = 0; j < wide; j++)
            __builtin_prefetch((const void *)(out + 4 * (uintptr_t)(i * p->out_stride + j * LB_LANES)), 1);
    }
    lb_dot4_dots(rows, wide, wide, p->a + row * p->stride, p->stride, c->w, c->second, lb_dot4_up(p->k, 4) / 4, wide < 4 ? &c->ahead : NULL,
                 acc);
    lb_dot4_epilogue(rows, wide, p, to, c, first + row, acc);
}

/* Each a function, so that it has the registers for itself. */
#define LB_DOT4_TILE_OF(rows, wide)                                                                                                        \
    static __attribute__((noinline)) void lb_dot4_tile##rows##x##wide(const lb_dot4_product *p, const lb_dot4_result to,                   \
                                                                      const lb_dot4_columns *c, ptrdiff_t first, ptrdiff_t row) {          \
        lb_dot4_tile(rows, wide, p, to, c, first, row);                                                                                    \
    }
#define LB_DOT4_CASE(rows, wide)                                                                                                           \
    case rows:                                                                                                                             \
        lb_dot4_tile##rows##x##wide(p, to, c, first, row);                                                                                 \
        break;
#define LB_DOT4_TILES_OF(name, ROWS_OF, wide)                                                                                              \
    ROWS_OF(LB_DOT4_TILE_OF, wide)                                                                                                         \
    LB_INLINE void name(ptrdiff_t rows, const lb_dot4_product *p, const lb_dot4_result to, const lb_dot4_columns *c, ptrdiff_t first,      \
                        ptrdiff_t row) {                                                                                                   \
        switch (rows) { ROWS_OF(LB_DOT4_CASE, wide) }                                                                                      \
    }
#define LB_DOT4_TO_5(X, wide) X(1, wide) X(2, wide) X(3, wide) X(4, wide) X(5, wide)
#define LB_DOT4_TO_6(X, wide) LB_DOT4_TO_5(X, wide) X(6, wide)
#define LB_DOT4_TO_12(X, wide) LB_DOT4_TO_6(X, wide) X(7, wide) X(8, wide) X(9, wide) X(10, wide) X(11, wide) X(12, wide)

#if LB_WIDE == 4
LB_DOT4_TILES_OF(lb_dot4_tile4, LB_DOT4_TO_5, 4)
LB_DOT4_TILES_OF(lb_dot4_tile2, LB_DOT4_TO_12, 2)
LB_DOT4_TILES_OF(lb_dot4_tile1, LB_DOT4_TO_12, 1)
#else
LB_DOT4_TILES_OF(lb_dot4_tile2, LB_DOT4_TO_6, 2)
#endif

/* All rows, in as few tiles as there must be, of about equally many rows. */
LB_INLINE void lb_dot4_tiles(const int wide, const lb_dot4_product *p, const lb_dot4_result to, lb_dot4_columns *c, ptrdiff_t first,
                             ptrdiff_t rows) {
    const ptrdiff_t tiles = (rows + LB_ROWS - 1) / LB_ROWS, quads = lb_dot4_up(p->k, 4) / 4;
    c->ahead.pace = 4 * LB_LANES * wide / tiles + 1; /* while these weights are multiplied with all rows, the next ones come */
    for (ptrdiff_t t = 0, row = 0, step; t < tiles; t++, row += step, c->ahead.at += (uintptr_t)(quads * c->ahead.pace)) {
        step = (rows - row) / (tiles - t);
#if LB_WIDE == 4
        if (wide == 4)
            lb_dot4_tile4(step, p, to, c, first, row);
        else if (wide == 1)
            lb_dot4_tile1(step, p, to, c, first, row);
        else
#endif
            lb_dot4_tile2(step, p, to, c, first, row);
    }
}

LB_INLINE void lb_dot4_multiply(const lb_dot4_product *p, const lb_dot4_result to, ptrdiff_t first, ptrdiff_t rows, ptrdiff_t left,
                                ptrdiff_t right) {
    const ptrdiff_t depth = lb_dot4_up(p->k, 4);
    lb_dot4_columns c = {.second = LB_PANEL_VECS == 2 ? 32 : LB_DOT4_PANEL * depth};
    for (ptrdiff_t n = left, panels; n < right; n += panels * LB_DOT4_PANEL) {
        const ptrdiff_t more = (right - n + LB_DOT4_PANEL - 1) / LB_DOT4_PANEL;
        panels = more * LB_PANEL_VECS >= LB_WIDE && rows <= LB_FEW_ROWS ? LB_WIDE / LB_PANEL_VECS
                 : more * LB_PANEL_VECS >= 2                            ? 2 / LB_PANEL_VECS
                                                                        : 1;
        const ptrdiff_t most = panels * LB_DOT4_PANEL;
        c.w = lb_dot4_panels(p->packed, p->n) + n * depth;
        c.ahead.at = (uintptr_t)(const void *)c.w + (uintptr_t)(most * depth);
        lb_dot4_columns_at(p, n, right - n < most ? right - n : most, &c);
#if LB_WIDE == 4
        if (panels == 4)
            lb_dot4_tiles(4, p, to, &c, first, rows);
        else if (panels == 1)
            lb_dot4_tiles(1, p, to, &c, first, rows);
        else
#endif
            lb_dot4_tiles(2, p, to, &c, first, rows);
    }
}

#include "linear/dot4/dot4_drive.h"

#endif
