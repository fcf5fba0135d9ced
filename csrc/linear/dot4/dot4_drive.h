/* linear_s8 and conv_s8 by quads: the items, and how rows come to scratch. Include after a header that defines LB_DOT4_FLIP (what is XORed
 * to activations) and lb_dot4_multiply (columns left ... right - 1, left a multiple of 16, of the rows in scratch, which are rows first,
 * first + 1, ... of out), and lb_dot4_put (n bytes, flipped). */
#ifndef LB_DOT4_DRIVE_H
#define LB_DOT4_DRIVE_H

#define LB_DOT4_DRIVE static inline __attribute__((always_inline))

/* Items of linear_s8. */
LB_DOT4_DRIVE void lb_dot4_blocks(const lb_dot4_product *product, const lb_linear_s8_params *p, const int8_t *x, const lb_dot4_result to,
                                  void *scratch, int32_t begin, int32_t end) {
    int32_t ready = -1; /* the first of the rows in scratch */
    for (int32_t item = begin; item < end; item++) {
        const lb_block b = lb_linear_block(p, item);
        for (int32_t i = 0; i < b.bottom - b.top && ready != b.top; i++)
            lb_dot4_put(x + (ptrdiff_t)(b.top + i) * p->k, p->k, (uint8_t *)scratch + i * product->stride);
        ready = b.top;
        lb_dot4_multiply(product, to, b.top, b.bottom - b.top, b.left, b.right);
    }
}

LB_DOT4_DRIVE void lb_dot4_linear(const lb_linear_s8_params *p, const int8_t *x, const void *w, const int32_t *bias,
                                  const float *multiplier, void *out, const lb_dot4_result to, void *scratch, int32_t begin, int32_t end) {
    const lb_dot4_product product = {.packed = w,
                                     .k = p->k,
                                     .n = p->n,
                                     .x_zero = p->x_zero,
                                     .bias = bias,
                                     .multiplier = multiplier,
                                     .out = out,
                                     .out_stride = p->out_stride,
                                     .y_zero = p->y_zero,
                                     .lo = p->lo,
                                     .hi = p->hi,
                                     .a = scratch,
                                     .stride = lb_dot4_stride(p->k)};
    lb_dot4_blocks(&product, p, x, to, scratch, begin, end);
}

/* A pixel of the output, and where its window goes. */
typedef struct {
    const int8_t *image; /* its first pixel, from the first channel of the group on */
    int32_t row, column; /* of the output */
    uint8_t *to;
} lb_dot4_pixel;

/* The window of a pixel for the channels of a group, flipped; x_zero outside the image. */
static inline void lb_dot4_window(const lb_conv_s8_params *p, const lb_dot4_pixel *at) {
    const int32_t depth = p->in_c / p->groups, row_bytes = p->kernel_w * depth;
    const int32_t top = at->row * p->stride_h - p->pad_h, left = at->column * p->stride_w - p->pad_w;
    const int whole = left >= 0 && left + p->kernel_w <= p->in_w && (p->kernel_w == 1 || (p->dilation_w == 1 && p->groups == 1));
    const int zero = (uint8_t)p->x_zero ^ LB_DOT4_FLIP;
    uint8_t *to = at->to;
    for (int32_t i = 0; i < p->kernel_h; i++) {
        const int32_t row = top + i * p->dilation_h;
        const int8_t *line = at->image + (ptrdiff_t)row * p->in_w * p->in_c; /* of a row that may lie outside: then it is not read */
        if (row < 0 || row >= p->in_h) {
            memset(to, zero, (size_t)row_bytes);
            to += row_bytes;
        } else if (whole) {
            lb_dot4_put(line + (ptrdiff_t)left * p->in_c, row_bytes, to);
            to += row_bytes;
        } else
            for (int32_t j = 0; j < p->kernel_w; j++, to += depth) {
                const int32_t column = left + j * p->dilation_w;
                if (column < 0 || column >= p->in_w)
                    memset(to, zero, (size_t)depth);
                else
                    lb_dot4_put(line + (ptrdiff_t)column * p->in_c, depth, to);
            }
    }
}

/* The windows of `count` pixels from `pixel` on, for the channels of a group from `channel` on. */
static inline void lb_dot4_windows(const lb_conv_s8_params *p, const int8_t *x, int32_t pixel, int32_t count, int32_t channel, uint8_t *to,
                                   ptrdiff_t stride) {
    const int32_t size = p->out_h * p->out_w, rest = pixel % size;
    const ptrdiff_t image = (ptrdiff_t)p->in_h * p->in_w * p->in_c;
    lb_dot4_pixel at = {x + pixel / size * image + channel, rest / p->out_w, rest % p->out_w, to};
    for (; count > 0; count--, at.to += stride) {
        lb_dot4_window(p, &at);
        if (++at.column < p->out_w)
            continue;
        at.column = 0;
        if (++at.row == p->out_h)
            at.row = 0, at.image += image;
    }
}

LB_DOT4_DRIVE void lb_dot4_conv(const lb_conv_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier,
                                void *out, const lb_dot4_result to, void *scratch, int32_t begin, int32_t end) {
    const int32_t depth = p->in_c / p->groups, k = p->kernel_h * p->kernel_w * depth, n = p->out_c / p->groups;
    const ptrdiff_t element = to == LB_DOT4_F32 ? 4 : to == LB_DOT4_S16 ? 2 : 1, stride = lb_dot4_stride(k);
    const int32_t last = lb_conv_first(p, end);
    for (int32_t g = 0; g < p->groups; g++) {
        const lb_dot4_product product = {.packed = (const char *)w + g * lb_dot4_bytes(k, n),
                                         .k = k,
                                         .n = n,
                                         .x_zero = p->x_zero,
                                         .bias = bias + g * n,
                                         .multiplier = multiplier + g * n,
                                         .out = (char *)out + element * g * n,
                                         .out_stride = p->out_stride,
                                         .y_zero = p->y_zero,
                                         .lo = p->lo,
                                         .hi = p->hi,
                                         .a = scratch,
                                         .stride = stride};
        for (int32_t at = lb_conv_first(p, begin); at < last; at += p->block) {
            const int32_t rows = last - at < p->block ? last - at : p->block;
            lb_dot4_windows(p, x, at, rows, g * depth, scratch, stride);
            lb_dot4_multiply(&product, to, at, rows, 0, n);
        }
    }
}

#endif
