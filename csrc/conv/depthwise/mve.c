#include "lb.h"
#include "base/dot_mve.h"
#include "base/window.h"

lb_dwconv_s8_fn lb_dwconv_s8__mve;

/* Eight channels of a pixel at once, widened to 16 bits, where x - x_zero has room; sums of even and of odd channels. */
void lb_dwconv_s8__mve(const lb_dwconv_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier,
                       int8_t *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    const int8_t *const weights = w;
    const int32_t step = p->dilation_w * p->channels, channels = p->channels;
    const int16_t minus = (int16_t)-p->x_zero;
    const lb_scaling scaling = {multiplier, p->y_zero, p->lo, p->hi};
    const lb_windows g = LB_WINDOWS(p);
    LB_EACH_WINDOW (&g, at) {
        const int8_t *image = x + at.image;
        int8_t *to = out + at.out;
        const int32_t high = at.columns.first < at.columns.last ? at.rows.last - at.rows.first : 0,
                      wide = at.columns.last - at.columns.first;
        const int32_t row = at.top + at.rows.first * p->dilation_h, column = at.left + at.columns.first * p->dilation_w;
        const int8_t *const corner = high ? image + ((ptrdiff_t)row * p->in_w + column) * channels : image;
        const int8_t *const first = high ? weights + ((ptrdiff_t)at.rows.first * p->kernel_w + at.columns.first) * channels : weights;
        const int32_t below = p->dilation_h * p->in_w * channels - wide * step, next = (p->kernel_w - wide) * channels;
        int32_t c = 0;
        for (; c + 8 <= channels; c += 8) {
            int32x4x2_t sum = vld2q_s32(bias + c); /* even channels, odd channels */
            const int8_t *a = corner + c, *b = first + c;
            for (int32_t i = 0; i < high; i++, a += below, b += next)
                for (int32_t j = 0; j < wide; j++, a += step, b += channels) {
                    const int16x8_t v = vaddq_n_s16(vldrbq_s16(a), minus), u = vldrbq_s16(b);
                    sum.val[0] = vaddq_s32(sum.val[0], vmullbq_int_s16(v, u));
                    sum.val[1] = vaddq_s32(sum.val[1], vmulltq_int_s16(v, u));
                }
            const float32x4x2_t m = vld2q_f32(multiplier + c);
            const int16x8_t even = vreinterpretq_s16_s32(lb_narrowed4(sum.val[0], m.val[0], &scaling));
            vstrbq_s16(to + c, vmovntq_s32(even, lb_narrowed4(sum.val[1], m.val[1], &scaling)));
        }
        for (; c < channels; c++) {
            uint32_t sum = (uint32_t)bias[c];
            const int8_t *a = corner + c, *b = first + c;
            for (int32_t i = 0; i < high; i++, a += below, b += next)
                for (int32_t j = 0; j < wide; j++, a += step, b += channels)
                    sum += (uint32_t)((*a - p->x_zero) * *b);
            lb_put(to, c, (int32_t)sum, &scaling, LB_TO_S8);
        }
    }
}
