#include "lb.h"
#include "base/math_f32.h"

#include <stddef.h>

lb_softmax_f32_fn lb_softmax_f32__ref;

static void column(const lb_softmax_f32_params *p, const float *x, float *out) {
    const ptrdiff_t step = p->inner;
    float most = -LB_INFINITY, sum = 0.0f;
    for (int32_t i = 0; i < p->n; i++)
        most = lb_maxf(most, x[i * step]);
    for (int32_t i = 0; i < p->n; i++) {
        const float shifted = x[i * step] - most, e = lb_expf(shifted);
        sum += e;
        out[i * step] = p->logarithm ? shifted : e;
    }
    const float log = p->logarithm ? lb_logf(sum) : 0.0f;
    for (int32_t i = 0; i < p->n; i++)
        out[i * step] = p->logarithm ? out[i * step] - log : out[i * step] / sum;
}

void lb_softmax_f32__ref(const lb_softmax_f32_params *p, const float *x, float *out, int32_t begin, int32_t end) {
    for (int32_t i = begin; i < end; i++)
        for (int32_t j = 0; j < p->inner; j++) {
            const ptrdiff_t at = (ptrdiff_t)i * p->n * p->inner + j;
            column(p, x + at, out + at);
        }
}
