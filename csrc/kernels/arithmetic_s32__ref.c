#include "lb.h"
#include "lb_walk.h"

lb_arithmetic_s32_fn lb_arithmetic_s32__ref;

/* Without a sign, so that sums wrap. */
static int32_t of(int32_t kind, int32_t a, int32_t b) {
    const uint32_t ua = (uint32_t)a, ub = (uint32_t)b;
    switch (kind) {
    case 0:
        return (int32_t)(ua + ub);
    case 1:
        return (int32_t)(ua - ub);
    case 2:
        return (int32_t)(ua * ub);
    case 3:
        return a > b ? a : b;
    default:
        return a < b ? a : b;
    }
}

void lb_arithmetic_s32__ref(const lb_arithmetic_s32_params *p, const int32_t *a, const int32_t *b, int32_t *out, int32_t begin,
                            int32_t end) {
    for (lb_run r; begin < end; begin += r.count) {
        r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);
        for (int32_t i = 0; i < r.count; i++)
            out[r.at + i] = of(p->kind, a[r.a + i * p->a_stride[3]], b[r.b + i * p->b_stride[3]]);
    }
}
