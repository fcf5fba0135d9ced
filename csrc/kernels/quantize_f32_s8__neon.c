#include "lb.h"
#include "lb_numerics.h"
#include "lb_requantize_neon.h"

lb_quantize_f32_s8_fn lb_quantize_f32_s8__neon;

void lb_quantize_f32_s8__neon(const lb_quantize_f32_s8_params *p, const float *x, int8_t *out, int32_t begin, int32_t end) {
    const lb_clamp16 clamp = lb_clamp16_of(p->zero_point, p->lo, p->hi);
    const float32x4_t scale = vdupq_n_f32(p->scale);
    int32_t i = begin;
    for (; i <= end - 16; i += 16) {
        const float32x4_t v[4] = {vdivq_f32(vld1q_f32(x + i), scale), vdivq_f32(vld1q_f32(x + i + 4), scale),
                                  vdivq_f32(vld1q_f32(x + i + 8), scale), vdivq_f32(vld1q_f32(x + i + 12), scale)};
        vst1q_s8(out + i, lb_round16(v, &clamp));
    }
    for (; i < end; i++)
        out[i] = (int8_t)lb_quantize(x[i], p->scale, p->zero_point, p->lo, p->hi);
}
