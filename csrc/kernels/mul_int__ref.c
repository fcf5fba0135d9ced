#include "lb.h"
#include "lb_elements.h"
#include "lb_walk.h"

lb_mul_int_fn lb_mul_int__ref;

void lb_mul_int__ref(const lb_mul_int_params *p, const void *a, const void *b, void *out, int32_t begin, int32_t end) {
    for (lb_run r; begin < end; begin += r.count) {
        r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);
        for (int32_t i = 0; i < r.count; i++) {
            const int32_t u = lb_element(a, p->a_bytes, r.a + i * p->a_stride[3]) - p->a_zero;
            const int32_t v = lb_element(b, p->b_bytes, r.b + i * p->b_stride[3]) - p->b_zero;
            const float y = lb_f32_mul(lb_f32_from_s64((int64_t)u * v), p->multiplier);
            lb_put(out, p->out_bytes, r.at + i, lb_f32_add(y, lb_f32_from_s32(p->y_zero)), 0, p->lo, p->hi);
        }
    }
}
