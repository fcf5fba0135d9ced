#include "lb.h"
#include "lb_walk.h"

lb_logic_b8_fn lb_logic_b8__ref;

void lb_logic_b8__ref(const lb_logic_b8_params *p, const uint8_t *a, const uint8_t *b, uint8_t *out, int32_t begin, int32_t end) {
    for (lb_run r; begin < end; begin += r.count) {
        r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);
        for (int32_t i = 0; i < r.count; i++) {
            const int u = a[r.a + i * p->a_stride[3]], v = b[r.b + i * p->b_stride[3]];
            out[r.at + i] = (uint8_t)(p->kind == 0 ? u & v : p->kind == 1 ? u | v : u ^ v);
        }
    }
}
