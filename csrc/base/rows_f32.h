/* A row of floats at a time: its largest, its sums, exp of it. Every row in one order, wherever it stands. The words of vectors
 * (f32_avx2.h or another) stand before this. */
#ifndef LB_ROWS_F32_H
#define LB_ROWS_F32_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* NaN if one is NaN, -inf of nothing. */
static inline float lb_row_max(const float *x, int32_t n) {
    lb_v most = lb_v_all(-LB_INFINITY);
    int32_t i = 0;
    for (; i <= n - LB_LANES; i += LB_LANES)
        most = LB_V(max)(most, lb_v_load(x + i));
    if (i < n)
        most = LB_V(max)(most, lb_v_get(x + i, n - i, -LB_INFINITY));
    return lb_v_most(most);
}

/* to = exp(x - shift), and the sum of that. */
static inline float lb_row_exp(const float *x, float shift, int32_t n, float *to) {
    const lb_v by = lb_v_all(shift);
    lb_v sum = lb_v_zero();
    int32_t i = 0;
    for (; i <= n - LB_LANES; i += LB_LANES) {
        const lb_v e = LB_V(exp)(lb_v_sub(lb_v_load(x + i), by));
        lb_v_store(to + i, e);
        sum = lb_v_add(sum, e);
    }
    if (i < n) {
        const lb_v e = LB_V(exp)(lb_v_sub(lb_v_get(x + i, n - i, -LB_INFINITY), by));
        lb_v_put(to + i, e, n - i);
        sum = lb_v_add(sum, e);
    }
    return lb_v_sum(sum);
}

static inline void lb_row_scale(float *x, float by, int32_t n) {
    const lb_v factor = lb_v_all(by);
    int32_t i = 0;
    for (; i <= n - LB_LANES; i += LB_LANES)
        lb_v_store(x + i, lb_v_mul(lb_v_load(x + i), factor));
    for (; i < n; i++)
        x[i] *= by;
}

/* The sum of x - shift, or of its squares. */
__attribute__((always_inline)) static inline float lb_row_sum(const float *x, float shift, const int squared, int32_t n) {
    const lb_v by = lb_v_all(shift);
    lb_v s[4] = {lb_v_zero(), lb_v_zero(), lb_v_zero(), lb_v_zero()};
    int32_t i = 0;
    for (; i <= n - 4 * LB_LANES; i += 4 * LB_LANES)
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++) {
            const lb_v v = lb_v_sub(lb_v_load(x + i + LB_LANES * c), by);
            s[c] = squared ? lb_v_fma(v, v, s[c]) : lb_v_add(v, s[c]);
        }
    for (; i < n; i += LB_LANES) {
        const lb_v v = lb_v_sub(n - i >= LB_LANES ? lb_v_load(x + i) : lb_v_get(x + i, n - i, shift), by);
        s[0] = squared ? lb_v_fma(v, v, s[0]) : lb_v_add(v, s[0]);
    }
    return lb_v_sum(lb_v_add(lb_v_add(s[0], s[1]), lb_v_add(s[2], s[3])));
}

#endif
