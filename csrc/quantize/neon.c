#include "lb.h"
#include "quantize/quantize_rest.h"
#include "base/requantize_neon.h"

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
    lb_quantize_rest(p, x, out, i, end);
}

lb_dequantize_s8_f32_fn lb_dequantize_s8_f32__neon;

void lb_dequantize_s8_f32__neon(const lb_dequantize_s8_f32_params *p, const int8_t *x, float *out, int32_t begin, int32_t end) {
    const float32x4_t scale = vdupq_n_f32(p->scale);
    const int32x4_t zero_point = vdupq_n_s32(p->zero_point);
    int32_t i = begin;
    for (; i <= end - 16; i += 16) {
        int32x4_t q[4];
        lb_widen16(vld1q_s8(x + i), q);
        for (int j = 0; j < 4; j++)
            vst1q_f32(out + i + 4 * j, vmulq_f32(scale, vcvtq_f32_s32(vsubq_s32(q[j], zero_point))));
    }
    lb_dequantize_rest(p, x, out, i, end);
}

lb_requantize_s8_fn lb_requantize_s8__neon;

void lb_requantize_s8__neon(const lb_requantize_s8_params *p, const int8_t *x, int8_t *out, int32_t begin, int32_t end) {
    const lb_clamp16 clamp = lb_clamp16_of(p->y_zero, p->lo, p->hi);
    int32_t i = begin;
    for (; i <= end - 16; i += 16) {
        int32x4_t q[4];
        float32x4_t v[4];
        lb_widen16(vld1q_s8(x + i), q);
        for (int j = 0; j < 4; j++)
            v[j] = vmulq_n_f32(vcvtq_f32_s32(vsubq_s32(q[j], vdupq_n_s32(p->x_zero))), p->multiplier);
        vst1q_s8(out + i, lb_round16(v, &clamp));
    }
    for (; i < end; i++)
        out[i] = (int8_t)lb_requantize(x[i] - p->x_zero, p->multiplier, p->y_zero, p->lo, p->hi);
}
