#include "lb.h"
#include "lb_numerics.h"
#include "lb_requantize_neon.h"

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
    for (; i < end; i++)
        out[i] = lb_dequantize(x[i], p->scale, p->zero_point);
}
