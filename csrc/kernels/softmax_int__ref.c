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
        const float sum = lb_f32_from_s64(total), r = lb_f32_div(p->multiplier, sum);
        const float log = p->logarithm ? lb_f32_div(lb_log(lb_f32_div(sum, lb_f32_from_s32(table[0]))), p->y_scale) : lb_f32_of_bits(0);
        for (int32_t i = 0; i < p->n; i++) {
            const ptrdiff_t at = first + (ptrdiff_t)i * p->inner;
            const int32_t d = most - lb_element(x, p->x_bytes, at);
            const float y =
                p->logarithm ? lb_f32_sub(lb_f32_mul(lb_f32_from_s32(-d), p->multiplier), log) : lb_f32_mul(lb_f32_from_s32(table[d]), r);
            lb_put(out, p->out_bytes, at, y, p->y_zero, p->lo, p->hi);
        }
    }
}
