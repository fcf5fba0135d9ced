#include "lb.h"
#include "base/window.h"

#include <stddef.h>

lb_max_pool_s8_fn lb_max_pool_s8__ref;

void lb_max_pool_s8__ref(const lb_max_pool_s8_params *p, const int8_t *x, int8_t *out, int32_t begin, int32_t end) {
    for (int32_t item = begin; item < end; item++) {
        const int8_t *image = x + (ptrdiff_t)(item / p->out_h) * p->in_h * p->in_w * p->channels;
        const int32_t top = item % p->out_h * p->stride_h - p->pad_h;
        const lb_taps rows = lb_taps_inside(top, p->kernel_h, p->dilation_h, 0, p->in_h);
        int8_t *to = out + (ptrdiff_t)item * p->out_w * p->out_stride;
        for (int32_t o = 0; o < p->out_w; o++, to += p->out_stride) {
            const int32_t left = o * p->stride_w - p->pad_w;
            const lb_taps columns = lb_taps_inside(left, p->kernel_w, p->dilation_w, 0, p->in_w);
            for (int32_t c = 0; c < p->channels; c++)
                to[c] = -128;
            for (int32_t i = rows.first; i < rows.last; i++)
                for (int32_t j = columns.first; j < columns.last; j++) {
                    const int8_t *from = image + ((ptrdiff_t)(top + i * p->dilation_h) * p->in_w + left + j * p->dilation_w) * p->channels;
                    for (int32_t c = 0; c < p->channels; c++)
                        to[c] = from[c] > to[c] ? from[c] : to[c];
                }
        }
    }
}

lb_max_pool_s16_fn lb_max_pool_s16__ref;

void lb_max_pool_s16__ref(const lb_max_pool_s16_params *p, const int16_t *x, int16_t *out, int32_t begin, int32_t end) {
    for (int32_t item = begin; item < end; item++) {
        const int16_t *image = x + (ptrdiff_t)(item / p->out_h) * p->in_h * p->in_w * p->channels;
        const int32_t top = item % p->out_h * p->stride_h - p->pad_h;
        const lb_taps rows = lb_taps_inside(top, p->kernel_h, p->dilation_h, 0, p->in_h);
        int16_t *to = out + (ptrdiff_t)item * p->out_w * p->out_stride;
        for (int32_t o = 0; o < p->out_w; o++, to += p->out_stride) {
            const int32_t left = o * p->stride_w - p->pad_w;
            const lb_taps columns = lb_taps_inside(left, p->kernel_w, p->dilation_w, 0, p->in_w);
            for (int32_t c = 0; c < p->channels; c++)
                to[c] = INT16_MIN;
            for (int32_t i = rows.first; i < rows.last; i++)
                for (int32_t j = columns.first; j < columns.last; j++) {
                    const int16_t *from = image + ((ptrdiff_t)(top + i * p->dilation_h) * p->in_w + left + j * p->dilation_w) * p->channels;
                    for (int32_t c = 0; c < p->channels; c++)
                        to[c] = from[c] > to[c] ? from[c] : to[c];
                }
        }
    }
}
