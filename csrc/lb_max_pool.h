/* max_pool_s8 where 16 channels are done at once. Before this is included, lb_most16 gives the largest of the taps of a window for 16
 * channels: tap (i, j) is at from + i * down + j * across of the image. */
#ifndef LB_MAX_POOL_H
#define LB_MAX_POOL_H

static inline void lb_max_pool16(const lb_max_pool_s8_params *p, const int8_t *x, int8_t *out, int32_t begin, int32_t end) {
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
            for (; c <= p->channels - 16; c += 16)
                lb_most16(image, corner + c, down, across, rows, columns, to + c);
            for (; c < p->channels; c++) {
                int8_t most = -128;
                for (int32_t i = rows.first; i < rows.last; i++)
                    for (int32_t j = columns.first; j < columns.last; j++) {
                        const int8_t v = image[corner + i * down + j * across + c];
                        most = v > most ? v : most;
                    }
                to[c] = most;
            }
        }
    }
}

#endif
