/* max_pool_s8 where LB_MOST channels are done at once. Before this is included, lb_most gives the largest of the taps of a window for
 * `count` of them, LB_MOST or what is left: tap (i, j) is at from + i * down + j * across of the image. LB_REST does what is left:
 * lb_most, if it may be given fewer, or lb_few, one by one. */
#ifndef LB_MAX_POOL_BODY_H
#define LB_MAX_POOL_BODY_H

#include <stddef.h>

static inline void lb_few(const int8_t *image, ptrdiff_t from, ptrdiff_t down, ptrdiff_t across, lb_taps rows, lb_taps columns, int8_t *to,
                          int32_t count) {
    for (int32_t c = 0; c < count; c++) {
        int8_t most = -128;
        for (int32_t i = rows.first; i < rows.last; i++)
            for (int32_t j = columns.first; j < columns.last; j++) {
                const int8_t v = image[from + i * down + j * across + c];
                most = v > most ? v : most;
            }
        to[c] = most;
    }
}

static inline void lb_max_pool(const lb_max_pool_s8_params *p, const int8_t *x, int8_t *out, int32_t begin, int32_t end) {
    const ptrdiff_t down = (ptrdiff_t)p->dilation_h * p->in_w * p->channels, across = (ptrdiff_t)p->dilation_w * p->channels;
    for (int32_t item = begin; item < end; item++) {
        const int8_t *image = x + (ptrdiff_t)(item / p->out_h) * p->in_h * p->in_w * p->channels;
        const int32_t top = item % p->out_h * p->stride_h - p->pad_h;
        const lb_taps rows = lb_taps_inside(top, p->kernel_h, p->dilation_h, 0, p->in_h);
        int8_t *to = out + (ptrdiff_t)item * p->out_w * p->out_stride;
        for (int32_t o = 0; o < p->out_w; o++, to += p->out_stride) {
            const int32_t left = o * p->stride_w - p->pad_w;
            const lb_taps columns = lb_taps_inside(left, p->kernel_w, p->dilation_w, 0, p->in_w);
            const ptrdiff_t corner = ((ptrdiff_t)top * p->in_w + left) * p->channels;
            int32_t c = 0;
            for (; c <= p->channels - LB_MOST; c += LB_MOST)
                lb_most(image, corner + c, down, across, rows, columns, to + c, LB_MOST);
            if (c < p->channels)
                LB_REST(image, corner + c, down, across, rows, columns, to + c, p->channels - c);
        }
    }
}

#endif
