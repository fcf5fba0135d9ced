/* conv_s8 by pairs of pixels, whose windows become rows. */
#ifndef LB_CONV_ARMDSP_H
#define LB_CONV_ARMDSP_H

#include "conv/conv_ref.h"
#include "base/dot_armdsp.h"
#include "conv/im2col.h"

LB_INLINE void lb_conv_armdsp(const lb_conv_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const lb_f32 *multiplier,
                              void *out, lb_kind kind, void *scratch, int32_t begin, int32_t end) {
    const int32_t n = p->out_c / p->groups, k = p->kernel_h * p->kernel_w * (p->in_c / p->groups), last = lb_conv_first(p, end);
    int8_t *const rows = scratch;
    for (int32_t i = lb_conv_first(p, begin); i < last; i += 2)
        for (int32_t g = 0; g < p->groups; g++) {
            const lb_columns c = {(const int8_t *)w + (ptrdiff_t)g * n * k,     bias + g * n, k, p->x_zero, 0, n,
                                  {multiplier + g * n, p->y_zero, p->lo, p->hi}};
            void *to = lb_element(out, (ptrdiff_t)i * p->out_stride + g * n, kind);
            lb_gather(p, x, i, g, rows);
            if (i + 1 < last) {
                lb_gather(p, x, i + 1, g, rows + k);
                lb_two_rows_armdsp(&c, rows, to, lb_element(to, p->out_stride, kind), kind);
            } else
                lb_row_armdsp(&c, rows, to, kind);
        }
}

#endif
