#include "lb.h"
#include "lb_elements.h"

lb_sum_int_fn lb_sum_int__ref;

void lb_sum_int__ref(const lb_sum_int_params *p, const void *x, void *out, int64_t *scratch, int32_t begin, int32_t end) {
    for (int32_t item = begin; item < end; item++) {
        for (int32_t j = 0; j < p->inner; j++)
            scratch[j] = 0;
        for (int32_t i = 0; i < p->n; i++)
            for (int32_t j = 0; j < p->inner; j++)
                scratch[j] += lb_element(x, p->x_bytes, ((ptrdiff_t)item * p->n + i) * p->inner + j) - p->x_zero;
        for (int32_t j = 0; j < p->inner; j++)
            lb_put(out, p->out_bytes, (ptrdiff_t)item * p->inner + j, lb_f32_mul(lb_f32_from_s64(scratch[j]), p->multiplier), p->y_zero,
                   p->lo, p->hi);
    }
}
