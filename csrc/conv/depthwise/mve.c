#include "base/dot_mve.h"
#include "conv/depthwise/dwconv_cortex.h"

lb_dwconv_s8_fn lb_dwconv_s8__mve;

/* Eight channels of a pixel at once, widened to 16 bits, where x - x_zero has room; sums of even and of odd channels. */
void lb_dwconv_s8__mve(const lb_dwconv_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier,
                       int8_t *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    const int32_t step = p->dilation_w * p->channels, channels = p->channels, eights = channels / 8 * 8;
    const int16_t minus = (int16_t)-p->x_zero;
    const lb_scaling scaling = {multiplier, p->y_zero, p->lo, p->hi};
    const lb_windows g = LB_WINDOWS(p);
    LB_EACH_WINDOW (&g, at) {
        const lb_dw_taps t = lb_dw_taps_of(p, &at, x, w);
        int8_t *const to = out + at.out;
        for (int32_t c = 0; c < eights; c += 8) {
            int32x4x2_t sum = vld2q_s32(bias + c); /* even channels, odd channels */
            const int8_t *a = t.x + c, *b = t.w + c;
            for (int32_t i = 0; i < t.high; i++, a += t.below, b += t.next)
                for (int32_t j = 0; j < t.wide; j++, a += step, b += channels) {
                    const int16x8_t v = vaddq_n_s16(vldrbq_s16(a), minus), u = vldrbq_s16(b);
                    sum.val[0] = vaddq_s32(sum.val[0], vmullbq_int_s16(v, u));
                    sum.val[1] = vaddq_s32(sum.val[1], vmulltq_int_s16(v, u));
                }
            const float32x4x2_t m = vld2q_f32(multiplier + c);
            const int16x8_t even = vreinterpretq_s16_s32(lb_narrowed4(sum.val[0], m.val[0], &scaling));
            vstrbq_s16(to + c, vmovntq_s32(even, lb_narrowed4(sum.val[1], m.val[1], &scaling)));
        }
        lb_dw_rest(p, &t, eights, bias, to, &scaling);
    }
}
