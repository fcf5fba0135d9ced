/* Operations on two floats: `of` is an expression of a and b. */
#include "lb.h"
#include "base/scalar_f32.h"
#include "elementwise/broadcast.h"

#define LB_BINARY_F32(contract, of)                                                                                                        \
    static inline float contract##_of(float a, float b) {                                                                                  \
        return of;                                                                                                                         \
    }                                                                                                                                      \
    void lb_##contract##__ref(const lb_##contract##_params *p, const float *a, const float *b, float *out, int32_t begin, int32_t end) {   \
        for (lb_run r; begin < end; begin += r.count) {                                                                                    \
            r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);                                                                 \
            for (int32_t i = 0; i < r.count; i++)                                                                                          \
                out[r.at + i] = lb_clampf(contract##_of(a[r.a + i * p->a_stride[3]], b[r.b + i * p->b_stride[3]]), p->lo, p->hi);          \
        }                                                                                                                                  \
    }

lb_add_f32_fn lb_add_f32__ref;

LB_BINARY_F32(add_f32, a + b)

lb_sub_f32_fn lb_sub_f32__ref;

LB_BINARY_F32(sub_f32, a - b)

lb_mul_f32_fn lb_mul_f32__ref;

LB_BINARY_F32(mul_f32, a *b)

lb_div_f32_fn lb_div_f32__ref;

LB_BINARY_F32(div_f32, a / b)

lb_max_f32_fn lb_max_f32__ref;

LB_BINARY_F32(max_f32, lb_maxf(a, b))

lb_min_f32_fn lb_min_f32__ref;

LB_BINARY_F32(min_f32, lb_minf(a, b))

lb_prelu_f32_fn lb_prelu_f32__ref;

LB_BINARY_F32(prelu_f32, a >= 0.0f ? a : a * b)

lb_clip_f32_fn lb_clip_f32__ref;

void lb_clip_f32__ref(const lb_clip_f32_params *p, const float *x, float *out, int32_t begin, int32_t end) {
    for (int32_t i = begin; i < end; i++)
        out[i] = lb_clampf(x[i], p->lo, p->hi);
}
