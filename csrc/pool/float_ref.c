#include "lb.h"
#include "base/scalar_f32.h"
#include "base/window.h"

#include <stddef.h>

lb_max_pool_f32_fn lb_max_pool_f32__ref;

void lb_max_pool_f32__ref(const lb_max_pool_f32_params *p, const float *x, float *out, int32_t begin, int32_t end) {
    for (int32_t item = begin; item < end; item++) {
        const float *image = x + (ptrdiff_t)(item / p->out_h) * p->in_h * p->in_w * p->channels;
        const int32_t top = item % p->out_h * p->stride_h - p->pad_h;
        const lb_taps rows = lb_taps_inside(top, p->kernel_h, p->dilation_h, 0, p->in_h);
        float *to = out + (ptrdiff_t)item * p->out_w * p->out_stride;
        for (int32_t o = 0; o < p->out_w; o++, to += p->out_stride) {
            const int32_t left = o * p->stride_w - p->pad_w;
            const lb_taps columns = lb_taps_inside(left, p->kernel_w, p->dilation_w, 0, p->in_w);
            for (int32_t c = 0; c < p->channels; c++)
                to[c] = -LB_INFINITY;
            for (int32_t i = rows.first; i < rows.last; i++)
                for (int32_t j = columns.first; j < columns.last; j++) {
                    const float *from = image + ((ptrdiff_t)(top + i * p->dilation_h) * p->in_w + left + j * p->dilation_w) * p->channels;
                    for (int32_t c = 0; c < p->channels; c++)
                        to[c] = lb_maxf(to[c], from[c]);
                }
        }
    }
}

lb_avg_pool_f32_fn lb_avg_pool_f32__ref;

static int32_t length(lb_taps t) {
    return t.last - t.first;
}

void lb_avg_pool_f32__ref(const lb_avg_pool_f32_params *p, const float *x, float *out, int32_t begin, int32_t end) {
    for (int32_t item = begin; item < end; item++) {
        const float *image = x + (ptrdiff_t)(item / p->out_h) * p->in_h * p->in_w * p->channels;
        const int32_t top = item % p->out_h * p->stride_h - p->pad_h;
        const lb_taps rows = lb_taps_inside(top, p->kernel_h, p->dilation_h, 0, p->in_h);
        const int32_t high = length(lb_taps_inside(top, p->kernel_h, p->dilation_h, -p->count_h0, p->in_h + p->count_h1));
        float *to = out + (ptrdiff_t)item * p->out_w * p->out_stride;
        for (int32_t o = 0; o < p->out_w; o++, to += p->out_stride) {
            const int32_t left = o * p->stride_w - p->pad_w;
            const lb_taps columns = lb_taps_inside(left, p->kernel_w, p->dilation_w, 0, p->in_w);
            const int32_t wide = length(lb_taps_inside(left, p->kernel_w, p->dilation_w, -p->count_w0, p->in_w + p->count_w1));
            for (int32_t c = 0; c < p->channels; c++)
                to[c] = 0.0f;
            for (int32_t i = rows.first; i < rows.last; i++)
                for (int32_t j = columns.first; j < columns.last; j++) {
                    const float *from = image + ((ptrdiff_t)(top + i * p->dilation_h) * p->in_w + left + j * p->dilation_w) * p->channels;
                    for (int32_t c = 0; c < p->channels; c++)
                        to[c] += from[c];
                }
            for (int32_t c = 0; c < p->channels; c++)
                to[c] /= (float)(high * wide);
        }
    }
}
