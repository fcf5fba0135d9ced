#include "lb.h"
#include "lb_elements.h"
#include "lb_log.h"

lb_softmax_int_fn lb_softmax_int__ref;

void lb_softmax_int__ref(const lb_softmax_int_params *p, const void *x, const int32_t *table, void *out, int32_t begin, int32_t end) {
    for (int32_t item = begin; item < end; item++) {
        const ptrdiff_t first = (ptrdiff_t)(item / p->inner) * p->n * p->inner + item % p->inner;
        int32_t most = -32768;
        for (int32_t i = 0; i < p->n; i++) {
            const int32_t v = lb_element(x, p->x_bytes, first + (ptrdiff_t)i * p->inner);
            most = v > most ? v : most;
        }
        int64_t total = 0;
        for (int32_t i = 0; i < p->n; i++)
            total += table[most - lb_element(x, p->x_bytes, first + (ptrdiff_t)i * p->inner)];
        const float r = p->multiplier / (float)total;
        const float log = p->logarithm ? lb_log((float)total / (float)table[0]) / p->y_scale : 0.0f;
        for (int32_t i = 0; i < p->n; i++) {
            const ptrdiff_t at = first + (ptrdiff_t)i * p->inner;
            const int32_t d = most - lb_element(x, p->x_bytes, at);
            const float y = p->logarithm ? (float)-d * p->multiplier - log : (float)table[d] * r;
            lb_put(out, p->out_bytes, at, y, p->y_zero, p->lo, p->hi);
        }
    }
}
