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
    for (int32_t item = begin; item < end; item++) {
        const int8_t *image = x + (ptrdiff_t)(item / p->out_h) * p->in_h * p->in_w * channels;
        const int32_t top = item % p->out_h * p->stride_h - p->pad_h;
        const lb_taps rows = lb_taps_inside(top, p->kernel_h, p->dilation_h, 0, p->in_h);
        int8_t *to = out + (ptrdiff_t)item * p->out_w * p->out_stride;
        for (int32_t o = 0; o < p->out_w; o++, to += p->out_stride) {
            const int32_t left = o * p->stride_w - p->pad_w;
            const lb_taps columns = lb_taps_inside(left, p->kernel_w, p->dilation_w, 0, p->in_w);
            const int32_t high = columns.first < columns.last ? rows.last - rows.first : 0, wide = columns.last - columns.first;
            const int32_t row = top + rows.first * p->dilation_h, column = left + columns.first * p->dilation_w;
            const int8_t *const corner = high ? image + ((ptrdiff_t)row * p->in_w + column) * channels : image;
            const int8_t *const first = high ? weights + ((ptrdiff_t)rows.first * p->kernel_w + columns.first) * channels : weights;
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
}
