#include "lb.h"
#include "base/elements.h"
#include "elementwise/broadcast.h"

lb_add_int_fn lb_add_int__ref;

void lb_add_int__ref(const lb_add_int_params *p, const void *a, const void *b, void *out, int32_t begin, int32_t end) {
    for (lb_run r; begin < end; begin += r.count) {
        r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);
        for (int32_t i = 0; i < r.count; i++) {
            const lb_f32 u = lb_f32_mul(lb_f32_from_s32(lb_element(a, p->a_bytes, r.a + i * p->a_stride[3])), p->a_multiplier);
            const lb_f32 v = lb_f32_mul(lb_f32_from_s32(lb_element(b, p->b_bytes, r.b + i * p->b_stride[3])), p->b_multiplier);
            lb_put(out, p->out_bytes, r.at + i, lb_f32_add(lb_f32_add(u, p->offset), v), 0, p->lo, p->hi);
        }
    }
}

lb_mul_int_fn lb_mul_int__ref;

void lb_mul_int__ref(const lb_mul_int_params *p, const void *a, const void *b, void *out, int32_t begin, int32_t end) {
    for (lb_run r; begin < end; begin += r.count) {
        r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);
        for (int32_t i = 0; i < r.count; i++) {
            const int32_t u = lb_element(a, p->a_bytes, r.a + i * p->a_stride[3]) - p->a_zero;
            const int32_t v = lb_element(b, p->b_bytes, r.b + i * p->b_stride[3]) - p->b_zero;
            const lb_f32 y = lb_f32_mul(lb_f32_from_s64((int64_t)u * v), p->multiplier);
            lb_put(out, p->out_bytes, r.at + i, lb_f32_add(y, lb_f32_from_s32(p->y_zero)), 0, p->lo, p->hi);
        }
    }
}

lb_div_int_fn lb_div_int__ref;

void lb_div_int__ref(const lb_div_int_params *p, const void *a, const void *b, void *out, int32_t begin, int32_t end) {
    for (lb_run r; begin < end; begin += r.count) {
        r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);
        for (int32_t i = 0; i < r.count; i++) {
            const int32_t u = lb_element(a, p->a_bytes, r.a + i * p->a_stride[3]) - p->a_zero;
            const int32_t v = lb_element(b, p->b_bytes, r.b + i * p->b_stride[3]) - p->b_zero;
            const lb_f32 y = lb_f32_mul(lb_f32_div(lb_f32_from_s32(u), lb_f32_from_s32(v)), p->multiplier);
            lb_put(out, p->out_bytes, r.at + i, y, p->y_zero, p->lo, p->hi);
        }
    }
}

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
