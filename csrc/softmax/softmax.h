/* Softmax of integers and its logarithm (docs/arithmetic.md section 4). lb.h has the rules of every contract. */
#ifndef LB_SOFTMAX_H
#define LB_SOFTMAX_H

#include "base/numerics.h"

#include <stdint.h>

/* ---- softmax_int: along the middle axis of x (outer, n, inner) -------------------------------------------------------------------------
 * With M the largest x of a row, e = table[M - x] and S = sum of e, exact:
 *
 *   softmax      out = fl32(e) * (multiplier / fl32(S))
 *   logarithm    out = fl32(x - M) * multiplier - lb_log(fl32(S) / fl32(table[0])) / y_scale
 *
 * a float, or clamp(rne(...) + y_zero). The table has 2^(8 * x_bytes) entries >= 0. Item: one of outer x inner. */
typedef struct {
    int32_t n; /* >= 1 */
    int32_t inner;
    int32_t logarithm; /* 0 or 1 */
    int32_t x_bytes;   /* of an element: 1 or 2 */
    int32_t out_bytes; /* 1, 2, or 4 for floats */
    int32_t y_zero;
    int32_t lo;
    int32_t hi;
    lb_f32 multiplier; /* finite, > 0 */
    lb_f32 y_scale;    /* finite, > 0 */
} lb_softmax_int_params;

typedef void lb_softmax_int_fn(const lb_softmax_int_params *p, const void *x, const int32_t *table, void *out, int32_t begin, int32_t end);

#endif
