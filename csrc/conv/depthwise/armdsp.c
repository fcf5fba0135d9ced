#include "base/dot_armdsp.h"
#include "conv/depthwise/dwconv_cortex.h"

lb_dwconv_s8_fn lb_dwconv_s8__armdsp;

/* Four channels of a pixel at once: the halves of two words are multiplied, each for a channel of its own. */
void lb_dwconv_s8__armdsp(const lb_dwconv_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const lb_f32 *multiplier,
                          int8_t *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    const int32_t minus = lb_minus(p->x_zero), step = p->dilation_w * p->channels, channels = p->channels, fours = channels / 4 * 4;
    const lb_scaling scaling = {multiplier, p->y_zero, p->lo, p->hi};
    const lb_windows g = LB_WINDOWS(p);
    LB_EACH_WINDOW (&g, at) {
        const lb_dw_taps t = lb_dw_taps_of(p, &at, x, w);
        int8_t *const to = out + at.out;
        for (int32_t c = 0; c < fours; c += 4) {
            int32_t s0 = bias[c], s1 = bias[c + 1], s2 = bias[c + 2], s3 = bias[c + 3];
            const int8_t *a = t.x + c, *b = t.w + c;
            for (int32_t i = 0; i < t.high; i++, a += t.below, b += t.next)
                for (int32_t j = 0; j < t.wide; j++, a += step, b += channels) {
                    const int32_t v = lb_four(a), u = lb_four(b);
                    const int32_t even = lb_even(minus, v), odd = lb_odd(minus, v), even_w = lb_even_of(u), odd_w = lb_odd_of(u);
                    s0 = __smlabb(even, even_w, s0), s1 = __smlabb(odd, odd_w, s1);
                    s2 = __smlatt(even, even_w, s2), s3 = __smlatt(odd, odd_w, s3);
                }
            lb_put(to, c, s0, &scaling, LB_TO_S8), lb_put(to, c + 1, s1, &scaling, LB_TO_S8);
            lb_put(to, c + 2, s2, &scaling, LB_TO_S8), lb_put(to, c + 3, s3, &scaling, LB_TO_S8);
        }
        lb_dw_rest(p, &t, fours, bias, to, &scaling);
    }
}
