#include "lb.h"
#include "lb_walk.h"

lb_compare_s64_fn lb_compare_s64__ref;

static int of(int32_t kind, int64_t a, int64_t b) {
    switch (kind) {
    case 0:
        return a == b;
    case 1:
        return a != b;
    case 2:
        return a < b;
    case 3:
        return a <= b;
    case 4:
        return a > b;
    default:
        return a >= b;
    }
}

void lb_compare_s64__ref(const lb_compare_s64_params *p, const int64_t *a, const int64_t *b, uint8_t *out, int32_t begin, int32_t end) {
    for (lb_run r; begin < end; begin += r.count) {
        r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);
        for (int32_t i = 0; i < r.count; i++)
            out[r.at + i] = (uint8_t)of(p->kind, a[r.a + i * p->a_stride[3]], b[r.b + i * p->b_stride[3]]);
    }
}
