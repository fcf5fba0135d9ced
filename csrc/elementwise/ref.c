#include "lb.h"
#include "base/numerics.h"
#include "elementwise/broadcast.h"

/* out = `of`, an expression of u, an element of a, and v, one of b. */
#define LB_EACH_PAIR(type, of)                                                                                                             \
    for (lb_run r; begin < end; begin += r.count) {                                                                                        \
        r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);                                                                     \
        for (int32_t i = 0; i < r.count; i++) {                                                                                            \
            const int32_t u = a[r.a + i * p->a_stride[3]], v = b[r.b + i * p->b_stride[3]];                                                \
            out[r.at + i] = (type)(of);                                                                                                    \
        }                                                                                                                                  \
    }

lb_add_s8_fn lb_add_s8__ref;

void lb_add_s8__ref(const lb_add_s8_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t begin,
                    int32_t end){LB_EACH_PAIR(int8_t, lb_add(u, v, p -> a_multiplier, p->b_multiplier, p->offset, p->lo, p->hi))}

lb_add_s16_fn lb_add_s16__ref;

void lb_add_s16__ref(const lb_add_s16_params *p, const int16_t *a, const int16_t *b, int16_t *out, int32_t begin,
                     int32_t end){LB_EACH_PAIR(int16_t, lb_add(u, v, p -> a_multiplier, p->b_multiplier, p->offset, p->lo, p->hi))}

lb_mul_s8_fn lb_mul_s8__ref;

void lb_mul_s8__ref(const lb_mul_s8_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t begin,
                    int32_t end){LB_EACH_PAIR(int8_t, lb_mul((u - p -> a_zero) * (v - p->b_zero), p->multiplier, p->y_zero, p->lo, p->hi))}

lb_max_s8_fn lb_max_s8__ref;

void lb_max_s8__ref(const lb_max_s8_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t begin,
                    int32_t end){LB_EACH_PAIR(int8_t, u > v ? u : v)}

lb_min_s8_fn lb_min_s8__ref;

void lb_min_s8__ref(const lb_min_s8_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t begin, int32_t end) {
    LB_EACH_PAIR(int8_t, u < v ? u : v)
}
