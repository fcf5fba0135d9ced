#include "lb.h"
#include "elementwise/broadcast.h"

lb_arithmetic_s32_fn lb_arithmetic_s32__ref;

/* Without a sign, so that sums wrap. */
static int32_t of_s32(int32_t kind, int32_t a, int32_t b) {
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
            out[r.at + i] = of_s32(p->kind, a[r.a + i * p->a_stride[3]], b[r.b + i * p->b_stride[3]]);
    }
}

lb_arithmetic_s64_fn lb_arithmetic_s64__ref;

/* Without a sign, so that sums wrap. */
static int64_t of_s64(int32_t kind, int64_t a, int64_t b) {
    const uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
    switch (kind) {
    case 0:
        return (int64_t)(ua + ub);
    case 1:
        return (int64_t)(ua - ub);
    case 2:
        return (int64_t)(ua * ub);
    case 3:
        return a > b ? a : b;
    default:
        return a < b ? a : b;
    }
}

void lb_arithmetic_s64__ref(const lb_arithmetic_s64_params *p, const int64_t *a, const int64_t *b, int64_t *out, int32_t begin,
                            int32_t end) {
    for (lb_run r; begin < end; begin += r.count) {
        r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);
        for (int32_t i = 0; i < r.count; i++)
            out[r.at + i] = of_s64(p->kind, a[r.a + i * p->a_stride[3]], b[r.b + i * p->b_stride[3]]);
    }
}

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

lb_not_b8_fn lb_not_b8__ref;

void lb_not_b8__ref(const lb_not_b8_params *p, const uint8_t *x, uint8_t *out, int32_t begin, int32_t end) {
    (void)p;
    for (int32_t i = begin; i < end; i++)
        out[i] = (uint8_t)(1 - x[i]);
}
