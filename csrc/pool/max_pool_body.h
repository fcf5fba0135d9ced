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
    const lb_windows g = LB_WINDOWS(p);
    LB_EACH_WINDOW (&g, at) {
        const int8_t *image = x + at.image;
        int8_t *to = out + at.out;
        const ptrdiff_t corner = ((ptrdiff_t)at.top * p->in_w + at.left) * p->channels;
        int32_t c = 0;
        for (; c <= p->channels - LB_MOST; c += LB_MOST)
            lb_most(image, corner + c, down, across, at.rows, at.columns, to + c, LB_MOST);
        if (c < p->channels)
            LB_REST(image, corner + c, down, across, at.rows, at.columns, to + c, p->channels - c);
    }
}

#endif
