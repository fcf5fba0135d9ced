/* conv_w4_*: the window of each pixel is a row, and rows are multiplied as in linear_w4_*. lb_w4_multiply stands before this. */
#ifndef LB_W4_CONV_X86_H
#define LB_W4_CONV_X86_H

#include "int4/w4_conv.h"

/* The window of a pixel: in the image, where it lies there in one piece, else in `bytes`. */
static inline const int8_t *lb_w4_window(const lb_conv_w4_s8_params *p, const int8_t *x, int32_t pixel, int8_t *bytes) {
    const int32_t size = p->out_h * p->out_w, row_bytes = p->kernel_w * p->in_c;
    const int32_t top = pixel % size / p->out_w * p->stride_h - p->pad_h, left = pixel % p->out_w * p->stride_w - p->pad_w;
    const int8_t *image = x + (ptrdiff_t)(pixel / size) * p->in_h * p->in_w * p->in_c;
    const int whole = left >= 0 && left + p->kernel_w <= p->in_w && (p->kernel_w == 1 || p->dilation_w == 1);
    if (p->kernel_h == 1 && whole && top >= 0 && top < p->in_h)
        return image + ((ptrdiff_t)top * p->in_w + left) * p->in_c;
    for (int32_t i = 0; i < p->kernel_h; i++) {
        const int32_t row = top + i * p->dilation_h;
        int8_t *to = bytes + i * row_bytes;
        if (row < 0 || row >= p->in_h) {
            memset(to, p->x_zero, (size_t)row_bytes);
            continue;
        }
        const int8_t *line = image + (ptrdiff_t)row * p->in_w * p->in_c;
        if (whole) {
            memcpy(to, line + (ptrdiff_t)left * p->in_c, (size_t)row_bytes);
            continue;
        }
        for (int32_t j = 0; j < p->kernel_w; j++, to += p->in_c) {
            const int32_t column = left + j * p->dilation_w;
            if (column < 0 || column >= p->in_w)
                memset(to, p->x_zero, (size_t)p->in_c);
            else
                memcpy(to, line + (ptrdiff_t)column * p->in_c, (size_t)p->in_c);
        }
    }
    return bytes;
}

LB_INLINE void lb_w4_conv(const lb_conv_w4_s8_params *p, const lb_result to, const int8_t *x, const void *w, const int32_t *bias,
                          const float *multiplier, void *out, void *scratch, int32_t begin, int32_t end) {
    const int32_t k = p->kernel_h * p->kernel_w * p->in_c;
    const lb_w4_product product = LB_W4_CHANNELS(p, k, p->out_c, w, bias, multiplier, out);
    int8_t *bytes = scratch; /* k, rounded up to 64 */
    const lb_w4_scratch s = lb_w4_scratch_at((char *)scratch + lb_w4_round_up(k, 64), p->block, &product.cut);
    const int32_t last = lb_w4_pixel(p, end);
    for (int32_t at = lb_w4_pixel(p, begin); at < last; at += p->block) {
        const int32_t rows = last - at < p->block ? last - at : p->block;
        for (int32_t i = 0; i < rows; i++)
            lb_w4_pack_row(lb_w4_window(p, x, at + i, bytes), &product, &s, i, lb_w4_are_few(&product, rows));
        lb_w4_multiply(&product, to, 0, &s, at, rows, 0, p->out_c);
    }
}

#endif
