/* Sums of x * w with 4-bit weights in the layout of `ref`, eight elements of a column in four SMLAD. A nibble at the top of its byte is
 * sixteen times its weight, sign and all: sums are divided by 16 at the end, exactly. */
#ifndef LB_W4_ARMDSP_H
#define LB_W4_ARMDSP_H

#include "base/dot_armdsp.h"
#include "int4/w4.h"

/* The eight weights of four bytes times the pairs (x0, x4), (x2, x6), (x1, x5), (x3, x7). */
LB_INLINE int32_t lb_w4_eight(int32_t acc, const uint8_t *w, int32_t x04, int32_t x26, int32_t x15, int32_t x37) {
    uint32_t v;
    memcpy(&v, w, sizeof v);
    const int32_t even = (int32_t)((v << 4) & 0xF0F0F0F0u), odd = (int32_t)(v & 0xF0F0F0F0u);
    acc = __smlad(x04, lb_even_of(even), acc), acc = __smlad(x26, lb_odd_of(even), acc);
    return __smlad(x37, lb_odd_of(odd), __smlad(x15, lb_even_of(odd), acc));
}

/* Low halves, and high halves, of two words. */
LB_INLINE int32_t lb_low_halves(int32_t a, int32_t b) {
    return (int32_t)(((uint32_t)a & 0xFFFFu) | (uint32_t)b << 16);
}

LB_INLINE int32_t lb_high_halves(int32_t a, int32_t b) {
    return (int32_t)((uint32_t)a >> 16 | ((uint32_t)b & 0xFFFF0000u));
}

/* One row, `columns` (1, 2 or 4) of them, which stand `step` bytes apart. k at most LB_W4_LONGEST. */
LB_INLINE void lb_w4_columns(int32_t *sums, int32_t columns, const int8_t *x, const uint8_t *w, ptrdiff_t step, int32_t k) {
    int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    const int8_t *const end = x + (k & ~7);
    for (; x < end; x += 8, w += 4) {
        const int32_t a = lb_four(x), b = lb_four(x + 4), ae = lb_even_of(a), be = lb_even_of(b), ao = lb_odd_of(a), bo = lb_odd_of(b);
        const int32_t x04 = lb_low_halves(ae, be), x26 = lb_high_halves(ae, be), x15 = lb_low_halves(ao, bo), x37 = lb_high_halves(ao, bo);
        s0 = lb_w4_eight(s0, w, x04, x26, x15, x37);
        if (columns > 1)
            s1 = lb_w4_eight(s1, w + step, x04, x26, x15, x37);
        if (columns > 2)
            s2 = lb_w4_eight(s2, w + 2 * step, x04, x26, x15, x37), s3 = lb_w4_eight(s3, w + 3 * step, x04, x26, x15, x37);
    }
    const int32_t all[4] = {s0, s1, s2, s3};
    for (int32_t j = 0; j < columns; j++)
        sums[j] = (int32_t)((uint32_t)sums[j] + (uint32_t)(all[j] >> 4) + (uint32_t)lb_w4_dot(x, 0, w + j * step, 0, k & 7));
}

LB_INLINE void lb_w4_put4(void *row, int32_t j, const int32_t acc[4], const lb_scaling *s, lb_kind kind) {
    for (int32_t i = 0; i < 4; i++)
        lb_put(row, j + i, acc[i], s, kind);
}

#include "int4/w4_cortex.h"

#endif
