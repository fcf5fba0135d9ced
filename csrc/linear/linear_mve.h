/* linear_s8 by four columns, whose weights pass once for all rows of a block. */
#ifndef LB_LINEAR_MVE_H
#define LB_LINEAR_MVE_H

#include "base/dot_mve.h"
#include "linear/linear_blocks.h"

LB_INLINE void lb_linear_mve(const lb_linear_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier,
                             void *out, lb_kind kind, int32_t begin, int32_t end) {
    const lb_scaling scaling = {multiplier, p->y_zero, p->lo, p->hi};
    const int32_t k = p->k;
    for (int32_t item = begin; item < end; item++) {
        const lb_block b = lb_linear_block(p, item);
        int32_t j = b.left;
        for (; j + 4 <= b.right; j += 4) {
            const int8_t *columns = (const int8_t *)w + (ptrdiff_t)j * k, *row = x + (ptrdiff_t)b.top * k;
            int32_t start[4];
            for (int32_t l = 0; l < 4; l++)
                start[l] = lb_start_mve(bias[j + l], columns + (ptrdiff_t)l * k, k, p->x_zero);
            for (int32_t i = b.top; i < b.bottom; i++, row += k)
                lb_put4_mve(lb_element(out, (ptrdiff_t)i * p->out_stride, kind), j, lb_dot_1x4_mve(start, row, columns, k), &scaling, kind);
        }
        for (; j < b.right; j++) {
            const int8_t *column = (const int8_t *)w + (ptrdiff_t)j * k;
            const int32_t start = lb_start_mve(bias[j], column, k, p->x_zero);
            for (int32_t i = b.top; i < b.bottom; i++)
                lb_put(lb_element(out, (ptrdiff_t)i * p->out_stride, kind), j, lb_dot_mve(start, x + (ptrdiff_t)i * k, column, k), &scaling,
                       kind);
        }
    }
}

#endif
