#include "lb.h"
#include "base/scalar_f32.h"
#include "base/window.h"

#include <stddef.h>

lb_dwconv_f32_fn lb_dwconv_f32__ref;

void lb_dwconv_f32__ref(const lb_dwconv_f32_params *p, const float *x, const float *w, const float *bias, float *out, int32_t begin,
                        int32_t end) {
    for (int32_t item = begin; item < end; item++) {
        const float *image = x + (ptrdiff_t)(item / p->out_h) * p->in_h * p->in_w * p->channels;
        const int32_t top = item % p->out_h * p->stride_h - p->pad_h;
        const lb_taps rows = lb_taps_inside(top, p->kernel_h, p->dilation_h, 0, p->in_h);
        float *to = out + (ptrdiff_t)item * p->out_w * p->out_stride;
        for (int32_t o = 0; o < p->out_w; o++, to += p->out_stride) {
            const int32_t left = o * p->stride_w - p->pad_w;
            const lb_taps columns = lb_taps_inside(left, p->kernel_w, p->dilation_w, 0, p->in_w);
            for (int32_t c = 0; c < p->channels; c++) {
                float sum = bias[c];
                for (int32_t i = rows.first; i < rows.last; i++)
                    for (int32_t j = columns.first; j < columns.last; j++)
                        sum += image[((ptrdiff_t)(top + i * p->dilation_h) * p->in_w + left + j * p->dilation_w) * p->channels + c] *
                               w[((ptrdiff_t)i * p->kernel_w + j) * p->channels + c];
                to[c] = lb_clampf(sum, p->lo, p->hi);
            }
        }
    }
}
