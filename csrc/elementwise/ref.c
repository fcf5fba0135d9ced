#include "lb.h"
#include "base/numerics.h"
#include "elementwise/broadcast.h"

lb_add_s8_fn lb_add_s8__ref;

void lb_add_s8__ref(const lb_add_s8_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t begin, int32_t end) {
    for (lb_run r; begin < end; begin += r.count) {
        r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);
        for (int32_t i = 0; i < r.count; i++)
            out[r.at + i] = (int8_t)lb_add(a[r.a + i * p->a_stride[3]], b[r.b + i * p->b_stride[3]], p->a_multiplier, p->b_multiplier,
                                           p->offset, p->lo, p->hi);
    }
}

lb_add_s16_fn lb_add_s16__ref;

void lb_add_s16__ref(const lb_add_s16_params *p, const int16_t *a, const int16_t *b, int16_t *out, int32_t begin, int32_t end) {
    for (lb_run r; begin < end; begin += r.count) {
        r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);
        for (int32_t i = 0; i < r.count; i++)
            out[r.at + i] = (int16_t)lb_add(a[r.a + i * p->a_stride[3]], b[r.b + i * p->b_stride[3]], p->a_multiplier, p->b_multiplier,
                                            p->offset, p->lo, p->hi);
    }
}

lb_mul_s8_fn lb_mul_s8__ref;

void lb_mul_s8__ref(const lb_mul_s8_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t begin, int32_t end) {
    for (lb_run r; begin < end; begin += r.count) {
        r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);
        for (int32_t i = 0; i < r.count; i++) {
            const int32_t product = (a[r.a + i * p->a_stride[3]] - p->a_zero) * (b[r.b + i * p->b_stride[3]] - p->b_zero);
            out[r.at + i] = (int8_t)lb_mul(product, p->multiplier, p->y_zero, p->lo, p->hi);
        }
    }
}
