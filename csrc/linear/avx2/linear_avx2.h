/* linear_s8 on AVX2: rows are brought into form once for all columns of their block. */
#ifndef LB_LINEAR_AVX2_H
#define LB_LINEAR_AVX2_H

#include "linear/linear_blocks.h"
#include "linear/avx2/methods_avx2.h"
#include "linear/avx2/strassen_avx2.h"

static inline void lb_linear_avx2(const lb_linear_s8_params *p, const int8_t *x, const void *w, const int32_t *bias,
                                  const float *multiplier, void *out, lb_result to, void *scratch, int32_t begin, int32_t end) {
    const lb_method *method = lb_method_of(w);
    const lb_rows s = method->rows_at(scratch, p->block_rows, p->k);
    const lb_product product = {
        method,    w,     p->k, p->n, p->x_zero, bias, multiplier, out, p->out_stride, to, lb_clamp16_of(p->y_zero, p->lo, p->hi),
        p->y_zero, p->lo, p->hi};
    const lb_strassen strassen = lb_strassen_at(scratch, s.rows, p->k);
    int32_t ready = -1; /* the first of the rows in scratch */
    int far = 0;        /* whether they are in Strassen's factors */
    for (int32_t item = begin; item < end; item++) {
        const lb_block b = lb_linear_block(p, item);
        for (int32_t at = b.top; at < b.bottom; at += (int32_t)s.rows) {
            const int32_t rows = b.bottom - at < s.rows ? b.bottom - at : (int32_t)s.rows;
            if (ready != at)
                far = method == &lb_maddubs_s8_method && rows >= LB_STRASSEN_LEAST &&
                      lb_is_far(x + (ptrdiff_t)at * p->k, rows, p->k, p->x_zero);
            if (ready != at && far)
                for (int32_t i = 0; i < rows; i += 2) {
                    const int8_t *row = x + (ptrdiff_t)(at + i) * p->k;
                    lb_strassen_rows(&strassen, i / 2, row, i + 1 < rows ? row + p->k : NULL, p->k, p->x_zero);
                }
            else if (ready != at) {
                method->put_rows(&s, 0, rows, x + (ptrdiff_t)at * p->k, p->k, p->x_zero);
                if (method->prepare)
                    method->prepare(&s, rows, p->k, p->x_zero);
            }
            ready = at;
            if (far)
                lb_strassen_multiply(&product, &strassen, at, rows, b.left, b.right);
            else
                method->multiply(&product, &s, at, rows, b.left, b.right);
        }
    }
}

#endif
