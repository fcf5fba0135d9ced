/* linear_s8 and conv_s8 by quads: the items, and how rows come to scratch. Behind a header that defines LB_QUADS_FLIP (what is XORed to
 * activations) and lb_quads_multiply (columns left ... right - 1, left a multiple of 16, of the rows in scratch, which are rows first,
 * first + 1, ... of out). */
#ifndef LB_QUADS_DRIVE_H
#define LB_QUADS_DRIVE_H

#define LB_QUADS_DRIVE static inline __attribute__((always_inline))

/* n bytes, flipped. */
static inline void lb_quads_put(const int8_t *from, ptrdiff_t n, uint8_t *to) {
    for (ptrdiff_t i = 0; i < n; i++)
        to[i] = (uint8_t)from[i] ^ LB_QUADS_FLIP;
}

LB_QUADS_DRIVE void lb_quads_linear(const lb_linear_s8_params *p, const int8_t *x, const void *w, const int32_t *bias,
                                    const float *multiplier, void *out, const lb_quads_result to, void *scratch, int32_t begin,
                                    int32_t end) {
    const lb_quads_product product = {
        w, p->k, p->n, p->x_zero, bias, multiplier, out, p->out_stride, p->y_zero, p->lo, p->hi, scratch, lb_quads_stride(p->k)};
    int32_t ready = -1; /* the first of the rows in scratch */
    for (int32_t item = begin; item < end; item++) {
        const lb_block b = lb_linear_block(p, item);
        for (int32_t i = 0; i < b.bottom - b.top && ready != b.top; i++)
            lb_quads_put(x + (ptrdiff_t)(b.top + i) * p->k, p->k, (uint8_t *)scratch + i * product.stride);
        ready = b.top;
        lb_quads_multiply(&product, to, b.top, b.bottom - b.top, b.left, b.right);
    }
}

/* The window of a pixel for the channels of a group from `channel` on, flipped; x_zero outside the image. */
static inline void lb_quads_window(const lb_conv_s8_params *p, const int8_t *x, int32_t pixel, int32_t channel, uint8_t *to) {
    const int32_t size = p->out_h * p->out_w, depth = p->in_c / p->groups, row_bytes = p->kernel_w * depth;
    const int32_t top = pixel % size / p->out_w * p->stride_h - p->pad_h, left = pixel % p->out_w * p->stride_w - p->pad_w;
    const int8_t *image = x + (ptrdiff_t)(pixel / size) * p->in_h * p->in_w * p->in_c + channel;
    const int whole = left >= 0 && left + p->kernel_w <= p->in_w && (p->kernel_w == 1 || (p->dilation_w == 1 && p->groups == 1));
    const int zero = (uint8_t)p->x_zero ^ LB_QUADS_FLIP;
    for (int32_t i = 0; i < p->kernel_h; i++) {
        const int32_t row = top + i * p->dilation_h;
        const int8_t *line = image + (ptrdiff_t)row * p->in_w * p->in_c; /* of a row that may lie outside: then it is not read */
        if (row < 0 || row >= p->in_h) {
            memset(to, zero, (size_t)row_bytes);
            to += row_bytes;
        } else if (whole) {
            lb_quads_put(line + (ptrdiff_t)left * p->in_c, row_bytes, to);
            to += row_bytes;
        } else
            for (int32_t j = 0; j < p->kernel_w; j++, to += depth) {
                const int32_t column = left + j * p->dilation_w;
                if (column < 0 || column >= p->in_w)
                    memset(to, zero, (size_t)depth);
                else
                    lb_quads_put(line + (ptrdiff_t)column * p->in_c, depth, to);
            }
    }
}

LB_QUADS_DRIVE void lb_quads_conv(const lb_conv_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier,
                                  void *out, const lb_quads_result to, void *scratch, int32_t begin, int32_t end) {
    const int32_t depth = p->in_c / p->groups, k = p->kernel_h * p->kernel_w * depth, n = p->out_c / p->groups;
    const ptrdiff_t element = to == LB_QUADS_F32 ? 4 : to == LB_QUADS_S16 ? 2 : 1, stride = lb_quads_stride(k);
    const int32_t last = lb_conv_first(p, end);
    for (int32_t g = 0; g < p->groups; g++) {
        const lb_quads_product product = {(const char *)w + g * lb_quads_bytes(k, n),
                                          k,
                                          n,
                                          p->x_zero,
                                          bias + g * n,
                                          multiplier + g * n,
                                          (char *)out + element * g * n,
                                          p->out_stride,
                                          p->y_zero,
                                          p->lo,
                                          p->hi,
                                          scratch,
                                          stride};
        for (int32_t at = lb_conv_first(p, begin); at < last; at += p->block) {
            const int32_t rows = last - at < p->block ? last - at : p->block;
            for (int32_t i = 0; i < rows; i++)
                lb_quads_window(p, x, at + i, g * depth, (uint8_t *)scratch + i * stride);
            lb_quads_multiply(&product, to, at, rows, 0, n);
        }
    }
}

#endif
