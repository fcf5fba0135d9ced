/* softmax_f32 on vectors of any width: the words of f32_avx2.h or another stand before this. */
#ifndef LB_SOFTMAX_F32_SIMD_H
#define LB_SOFTMAX_F32_SIMD_H

#include "lb.h"
#include "base/math_f32.h"
#include "base/rows_f32.h"

static void row(const lb_softmax_f32_params *p, const float *x, float *out) {
    const float most = lb_row_max(x, p->n);
    if (!p->logarithm) {
        const float sum = lb_row_exp(x, most, p->n, out);
        lb_row_scale(out, 1.0f / sum, p->n);
        return;
    }
    const lb_v by = lb_v_all(most);
    lb_v sum = lb_v_zero();
    for (int32_t i = 0; i < p->n; i += LB_LANES) {
        const lb_v v = p->n - i >= LB_LANES ? lb_v_load(x + i) : lb_v_get(x + i, p->n - i, -LB_INFINITY);
        sum = lb_v_add(sum, LB_V(exp)(lb_v_sub(v, by)));
    }
    const float log = lb_logf(lb_v_sum(sum));
    for (int32_t i = 0; i < p->n; i++)
        out[i] = x[i] - most - log;
}

/* A vector of columns, or the n last ones. */
static void columns(const lb_softmax_f32_params *p, const float *x, float *out, int32_t n) {
    const ptrdiff_t step = p->inner;
    lb_v most = lb_v_all(-LB_INFINITY), sum = lb_v_zero();
    for (int32_t i = 0; i < p->n; i++)
        most = LB_V(max)(most, n == LB_LANES ? lb_v_load(x + i * step) : lb_v_get(x + i * step, n, 0.0f));
    for (int32_t i = 0; i < p->n; i++) {
        const lb_v v = lb_v_sub(n == LB_LANES ? lb_v_load(x + i * step) : lb_v_get(x + i * step, n, 0.0f), most), e = LB_V(exp)(v);
        sum = lb_v_add(sum, e);
        lb_v_put(out + i * step, p->logarithm ? v : e, n);
    }
    const lb_v by = p->logarithm ? LB_V(log)(sum) : lb_v_div(lb_v_all(1.0f), sum);
    for (int32_t i = 0; i < p->n; i++) {
        const lb_v v = lb_v_get(out + i * step, n, 0.0f);
        lb_v_put(out + i * step, p->logarithm ? lb_v_sub(v, by) : lb_v_mul(v, by), n);
    }
}

void LB_SIMD(softmax_f32)(const lb_softmax_f32_params *p, const float *x, float *out, int32_t begin, int32_t end) {
    for (int32_t i = begin; i < end; i++) {
        const ptrdiff_t at = (ptrdiff_t)i * p->n * p->inner;
        if (p->inner == 1)
            row(p, x + at, out + at);
        else
            for (int32_t j = 0; j < p->inner; j += LB_LANES)
                columns(p, x + at + j, out + at + j, p->inner - j < LB_LANES ? p->inner - j : LB_LANES);
    }
}

#endif
