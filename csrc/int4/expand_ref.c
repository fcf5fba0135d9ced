#include "lb.h"
#include "base/numerics.h"
#include "int4/w4.h"

lb_expand_s8_f32_fn lb_expand_s8_f32__ref;

void lb_expand_s8_f32__ref(const lb_expand_s8_f32_params *p, const int8_t *w, const lb_f32 *scales, lb_f32 *out, int32_t begin,
                           int32_t end) {
    for (int32_t i = begin; i < end; i++)
        out[i] = lb_f32_mul(lb_f32_from_s32(w[i]), scales[i / p->inner / p->run * p->inner + i % p->inner]);
}

lb_expand_w4_f32_fn lb_expand_w4_f32__ref;

void lb_expand_w4_f32__ref(const lb_expand_w4_f32_params *p, const uint8_t *w, const lb_f32 *scales, lb_f32 *out, int32_t begin,
                           int32_t end) {
    for (int32_t i = begin; i < end; i++)
        out[i] = lb_f32_mul(lb_f32_from_s32(lb_w4_at(w, i)), scales[i / p->inner / p->run * p->inner + i % p->inner]);
}
