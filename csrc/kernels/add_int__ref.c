#include "lb.h"
#include "lb_elements.h"
#include "lb_walk.h"

lb_add_int_fn lb_add_int__ref;

void lb_add_int__ref(const lb_add_int_params *p, const void *a, const void *b, void *out, int32_t begin, int32_t end) {
    for (lb_run r; begin < end; begin += r.count) {
        r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);
        for (int32_t i = 0; i < r.count; i++) {
            const float u = lb_f32_mul(lb_f32_from_s32(lb_element(a, p->a_bytes, r.a + i * p->a_stride[3])), p->a_multiplier);
            const float v = lb_f32_mul(lb_f32_from_s32(lb_element(b, p->b_bytes, r.b + i * p->b_stride[3])), p->b_multiplier);
            lb_put(out, p->out_bytes, r.at + i, lb_f32_add(lb_f32_add(u, p->offset), v), 0, p->lo, p->hi);
        }
    }
}
