/* linear_s8 by pairs of rows. */
#ifndef LB_LINEAR_ARMDSP_H
#define LB_LINEAR_ARMDSP_H

#include "base/dot_armdsp.h"
#include "linear/linear_blocks.h"

LB_INLINE void lb_linear_armdsp(const lb_linear_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const lb_f32 *multiplier,
                                void *out, lb_kind kind, int32_t begin, int32_t end) {
    for (int32_t item = begin; item < end; item++) {
        const lb_block b = lb_linear_block(p, item);
        const lb_columns c = {w, bias, p->k, p->x_zero, b.left, b.right, {multiplier, p->y_zero, p->lo, p->hi}};
        int32_t i = b.top;
        for (; i + 2 <= b.bottom; i += 2) {
            const int8_t *row = x + (ptrdiff_t)i * p->k;
            lb_two_rows_armdsp(&c, row, lb_element(out, (ptrdiff_t)i * p->out_stride, kind),
                               lb_element(out, (ptrdiff_t)(i + 1) * p->out_stride, kind), kind);
        }
        if (i < b.bottom)
            lb_row_armdsp(&c, x + (ptrdiff_t)i * p->k, lb_element(out, (ptrdiff_t)i * p->out_stride, kind), kind);
    }
}

#endif
