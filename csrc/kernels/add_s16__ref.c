#include "lb.h"
#include "lb_numerics.h"
#include "lb_walk.h"

lb_add_s16_fn lb_add_s16__ref;

void lb_add_s16__ref(const lb_add_s16_params *p, const int16_t *a, const int16_t *b, int16_t *out, int32_t begin, int32_t end) {
    for (lb_run r; begin < end; begin += r.count) {
        r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);
        for (int32_t i = 0; i < r.count; i++) {
            const float left = (float)(a[r.a + i * p->a_stride[3]] - p->a_zero) * p->a_multiplier;
            const float right = (float)(b[r.b + i * p->b_stride[3]] - p->b_zero) * p->b_multiplier;
            out[r.at + i] = (int16_t)lb_round_clamp(left + right, p->y_zero, p->lo, p->hi);
        }
    }
}
