/* Sums of (x - zero) * w, four elements in two instructions: SXTAB16 widens every other byte and adds what is given, SMLAD multiplies two
 * pairs. Weights stand as they are for `ref`. Modulo 2^32. */
#ifndef LB_DOT_ARMDSP_H
#define LB_DOT_ARMDSP_H

#include "base/madd16_armdsp.h"
#include "base/requantize_cortex.h"

LB_INLINE int32_t lb_more(int32_t acc, int32_t x, int32_t zero, int32_t w) {
    return (int32_t)((uint32_t)acc + (uint32_t)((x - zero) * w));
}

/* One row, one column. */
LB_INLINE int32_t lb_dot_1x1(int32_t acc, const int8_t *x, const int8_t *w, int32_t k, int32_t zero) {
    const int32_t minus = lb_minus(zero);
    const int8_t *const end = x + (k & ~3);
    for (; x < end; x += 4, w += 4) {
        const int32_t a = lb_four(x), b = lb_four(w);
        acc = __smlad(lb_even(minus, a), lb_even_of(b), acc);
        acc = __smlad(lb_odd(minus, a), lb_odd_of(b), acc);
    }
    for (int32_t i = 0; i < (k & 3); i++)
        acc = lb_more(acc, x[i], zero, w[i]);
    return acc;
}

/* One row, four columns, which stand `step` apart: few pointers, so that all sums stay in registers. */
LB_INLINE void lb_dot_1x4(int32_t acc[4], const int8_t *x, const int8_t *w, ptrdiff_t step, int32_t k, int32_t zero) {
    const int32_t minus = lb_minus(zero);
    const int8_t *const end = x + (k & ~3), *last = w + 3 * step;
    int32_t s0 = acc[0], s1 = acc[1], s2 = acc[2], s3 = acc[3];
    while (x < end) {
        const int32_t a = lb_four(x), even = lb_even(minus, a), odd = lb_odd(minus, a);
        int32_t b = lb_four(last);
        s3 = __smlad(even, lb_even_of(b), s3), s3 = __smlad(odd, lb_odd_of(b), s3), b = lb_four(w + 2 * step);
        s2 = __smlad(even, lb_even_of(b), s2), s2 = __smlad(odd, lb_odd_of(b), s2), b = lb_four(w + step);
        s1 = __smlad(even, lb_even_of(b), s1), s1 = __smlad(odd, lb_odd_of(b), s1), b = lb_four(w);
        s0 = __smlad(even, lb_even_of(b), s0), s0 = __smlad(odd, lb_odd_of(b), s0);
        x += 4, w += 4, last += 4;
    }
    for (int32_t i = 0; i < (k & 3); i++)
        s0 = lb_more(s0, x[i], zero, w[i]), s1 = lb_more(s1, x[i], zero, w[step + i]), s2 = lb_more(s2, x[i], zero, w[2 * step + i]),
        s3 = lb_more(s3, x[i], zero, last[i]);
    acc[0] = s0, acc[1] = s1, acc[2] = s2, acc[3] = s3;
}

/* Two rows and two columns, each k apart: acc is x0 w0, x0 w1, x1 w0, x1 w1. */
LB_INLINE void lb_dot_2x2(int32_t acc[4], const int8_t *x, const int8_t *w, int32_t k, int32_t zero) {
    const int32_t minus = lb_minus(zero);
    const int8_t *const end = x + (k & ~3);
    int32_t s0 = acc[0], s1 = acc[1], s2 = acc[2], s3 = acc[3];
    while (x < end) {
        const int32_t b = lb_four(x + k), a = lb_four(x);
        const int32_t even0 = lb_even(minus, a), odd0 = lb_odd(minus, a), even1 = lb_even(minus, b), odd1 = lb_odd(minus, b);
        int32_t v = lb_four(w + k), even = lb_even_of(v), odd = lb_odd_of(v);
        s1 = __smlad(even0, even, s1), s3 = __smlad(even1, even, s3), s1 = __smlad(odd0, odd, s1), s3 = __smlad(odd1, odd, s3);
        v = lb_four(w), even = lb_even_of(v), odd = lb_odd_of(v);
        s0 = __smlad(even0, even, s0), s2 = __smlad(even1, even, s2), s0 = __smlad(odd0, odd, s0), s2 = __smlad(odd1, odd, s2);
        x += 4, w += 4;
    }
    for (int32_t i = 0; i < (k & 3); i++)
        s0 = lb_more(s0, x[i], zero, w[i]), s1 = lb_more(s1, x[i], zero, w[k + i]), s2 = lb_more(s2, x[k + i], zero, w[i]),
        s3 = lb_more(s3, x[k + i], zero, w[k + i]);
    acc[0] = s0, acc[1] = s1, acc[2] = s2, acc[3] = s3;
}

/* Rows times columns left ... right - 1 of weights (n, k), into rows of the output. */
typedef struct {
    const int8_t *w;
    const int32_t *bias;
    int32_t k, x_zero, left, right;
    lb_scaling scaling;
} lb_columns;

LB_INLINE void lb_row_armdsp(const lb_columns *c, const int8_t *x, void *out, lb_kind kind) {
    int32_t j = c->left;
    for (; j + 4 <= c->right; j += 4) {
        int32_t acc[4] = {c->bias[j], c->bias[j + 1], c->bias[j + 2], c->bias[j + 3]};
        lb_dot_1x4(acc, x, c->w + (ptrdiff_t)j * c->k, c->k, c->k, c->x_zero);
        for (int32_t i = 0; i < 4; i++)
            lb_put(out, j + i, acc[i], &c->scaling, kind);
    }
    for (; j < c->right; j++)
        lb_put(out, j, lb_dot_1x1(c->bias[j], x, c->w + (ptrdiff_t)j * c->k, c->k, c->x_zero), &c->scaling, kind);
}

LB_INLINE void lb_two_rows_armdsp(const lb_columns *c, const int8_t *x, void *out0, void *out1, lb_kind kind) {
    int32_t j = c->left;
    for (; j + 2 <= c->right; j += 2) {
        int32_t acc[4] = {c->bias[j], c->bias[j + 1], c->bias[j], c->bias[j + 1]};
        lb_dot_2x2(acc, x, c->w + (ptrdiff_t)j * c->k, c->k, c->x_zero);
        lb_put(out0, j, acc[0], &c->scaling, kind), lb_put(out0, j + 1, acc[1], &c->scaling, kind);
        lb_put(out1, j, acc[2], &c->scaling, kind), lb_put(out1, j + 1, acc[3], &c->scaling, kind);
    }
    for (; j < c->right; j++) {
        lb_put(out0, j, lb_dot_1x1(c->bias[j], x, c->w + (ptrdiff_t)j * c->k, c->k, c->x_zero), &c->scaling, kind);
        lb_put(out1, j, lb_dot_1x1(c->bias[j], x + c->k, c->w + (ptrdiff_t)j * c->k, c->k, c->x_zero), &c->scaling, kind);
    }
}

#endif
