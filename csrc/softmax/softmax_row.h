/* One row of softmax_int, element by element. */
#ifndef LB_SOFTMAX_ROW_H
#define LB_SOFTMAX_ROW_H

#include "lb.h"
#include "base/elements.h"
#include "base/log.h"

/* The parameters of all elements of a row. */
typedef struct {
    lb_f32 factor, log;
} lb_softmax_row;

static inline lb_softmax_row lb_softmax_row_of(const lb_softmax_int_params *p, const int32_t *table, int64_t total) {
    const lb_f32 sum = lb_f32_from_s64(total);
    if (p->logarithm)
        return (lb_softmax_row){p->multiplier, lb_f32_div(lb_log(lb_f32_div(sum, lb_f32_from_s32(table[0]))), p->y_scale)};
    return (lb_softmax_row){lb_f32_div(p->multiplier, sum), lb_f32_of_bits(0)};
}

static inline void lb_softmax_item(const lb_softmax_int_params *p, const void *x, const int32_t *table, void *out, int32_t item) {
    const ptrdiff_t first = (ptrdiff_t)(item / p->inner) * p->n * p->inner + item % p->inner;
    int32_t most = -32768;
    for (int32_t i = 0; i < p->n; i++) {
        const int32_t v = lb_element(x, p->x_bytes, first + (ptrdiff_t)i * p->inner);
        most = v > most ? v : most;
    }
    int64_t total = 0;
    for (int32_t i = 0; i < p->n; i++)
        total += table[most - lb_element(x, p->x_bytes, first + (ptrdiff_t)i * p->inner)];
    const lb_softmax_row row = lb_softmax_row_of(p, table, total);
    for (int32_t i = 0; i < p->n; i++) {
        const ptrdiff_t at = first + (ptrdiff_t)i * p->inner;
        const int32_t d = most - lb_element(x, p->x_bytes, at);
        const lb_f32 y = p->logarithm ? lb_f32_sub(lb_f32_mul(lb_f32_from_s32(-d), row.factor), row.log)
                                      : lb_f32_mul(lb_f32_from_s32(table[d]), row.factor);
        lb_put(out, p->out_bytes, at, y, p->y_zero, p->lo, p->hi);
    }
}

#endif
