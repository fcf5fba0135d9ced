#include "lb.h"
#include "base/dot_armdsp.h"
#include "base/window.h"

lb_dwconv_s8_fn lb_dwconv_s8__armdsp;

/* Four channels of a pixel at once: the halves of two words are multiplied, each for a channel of its own. */
void lb_dwconv_s8__armdsp(const lb_dwconv_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const lb_f32 *multiplier,
                          int8_t *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    const int8_t *const weights = w;
    const int32_t minus = lb_minus(p->x_zero), step = p->dilation_w * p->channels, channels = p->channels;
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
        for (; c + 4 <= channels; c += 4) {
            int32_t s0 = bias[c], s1 = bias[c + 1], s2 = bias[c + 2], s3 = bias[c + 3];
            const int8_t *a = corner + c, *b = first + c;
            for (int32_t i = 0; i < high; i++, a += below, b += next)
                for (int32_t j = 0; j < wide; j++, a += step, b += channels) {
                    const int32_t v = lb_four(a), u = lb_four(b);
                    const int32_t even = lb_even(minus, v), odd = lb_odd(minus, v), even_w = lb_even_of(u), odd_w = lb_odd_of(u);
                    s0 = __smlabb(even, even_w, s0), s1 = __smlabb(odd, odd_w, s1);
                    s2 = __smlatt(even, even_w, s2), s3 = __smlatt(odd, odd_w, s3);
                }
            lb_put(to, c, s0, &scaling, LB_TO_S8), lb_put(to, c + 1, s1, &scaling, LB_TO_S8);
            lb_put(to, c + 2, s2, &scaling, LB_TO_S8), lb_put(to, c + 3, s3, &scaling, LB_TO_S8);
        }
        for (; c < channels; c++) {
            int32_t sum = bias[c];
            const int8_t *a = corner + c, *b = first + c;
            for (int32_t i = 0; i < high; i++, a += below, b += next)
                for (int32_t j = 0; j < wide; j++, a += step, b += channels)
                    sum = lb_more(sum, *a, p->x_zero, *b);
            lb_put(to, c, sum, &scaling, LB_TO_S8);
        }
    }
}
