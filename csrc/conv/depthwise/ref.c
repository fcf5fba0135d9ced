#include "lb.h"
#include "base/numerics.h"

#include <stddef.h>

lb_dwconv_s8_fn lb_dwconv_s8__ref;

void lb_dwconv_s8__ref(const lb_dwconv_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const lb_f32 *multiplier,
                       int8_t *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    const int8_t *weights = w;
    for (int32_t item = begin; item < end; item++) {
        const int8_t *image = x + (ptrdiff_t)(item / p->out_h) * p->in_h * p->in_w * p->channels;
        const int32_t top = item % p->out_h * p->stride_h - p->pad_h;
        int8_t *to = out + (ptrdiff_t)item * p->out_w * p->out_stride;
        for (int32_t o = 0; o < p->out_w; o++, to += p->out_stride)
            for (int32_t c = 0; c < p->channels; c++) {
                uint32_t acc = (uint32_t)bias[c];
                for (int32_t i = 0; i < p->kernel_h; i++)
                    for (int32_t j = 0; j < p->kernel_w; j++) {
                        const int32_t row = top + i * p->dilation_h, column = o * p->stride_w - p->pad_w + j * p->dilation_w;
                        if (row < 0 || row >= p->in_h || column < 0 || column >= p->in_w)
                            continue;
                        const int32_t v = image[((ptrdiff_t)row * p->in_w + column) * p->channels + c] - p->x_zero;
                        acc += (uint32_t)(v * weights[((ptrdiff_t)i * p->kernel_w + j) * p->channels + c]);
                    }
                to[c] = (int8_t)lb_requantize((int32_t)acc, multiplier[c], p->y_zero, p->lo, p->hi);
            }
    }
}
