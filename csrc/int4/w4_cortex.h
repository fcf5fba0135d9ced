/* linear_w4_s8 and conv_w4_s8 on Cortex-M, by rows: an instruction set brings lb_w4_columns and lb_w4_put4. */
#ifndef LB_W4_CORTEX_H
#define LB_W4_CORTEX_H

#include "int4/w4_conv.h"
#include "base/window.h"

#include <string.h>

enum { LB_W4_LONGEST = 1 << 16 }; /* elements whose sum times 16 fits int32: 2^16 * 128 * 8 * 16 = 2^30 */

/* Sums of four columns, or of one, over any k. */
LB_INLINE void lb_w4_sums(int32_t *sums, int32_t columns, const int8_t *x, const uint8_t *w, ptrdiff_t step, int32_t k) {
    for (; k > LB_W4_LONGEST; k -= LB_W4_LONGEST, x += LB_W4_LONGEST, w += LB_W4_LONGEST / 2)
        lb_w4_columns(sums, columns, x, w, step, LB_W4_LONGEST);
    lb_w4_columns(sums, columns, x, w, step, k);
}

/* Columns left ... right - 1 of a row of the output. */
LB_INLINE void lb_w4_row(const int8_t *x, const uint8_t *w, const int32_t *bias, int32_t k, int32_t left, int32_t right, void *out,
                         const lb_scaling *s, lb_kind kind) {
    const ptrdiff_t step = lb_w4_row_bytes(k);
    int32_t j = left;
    for (; j + 4 <= right; j += 4) {
        int32_t acc[4] = {bias[j], bias[j + 1], bias[j + 2], bias[j + 3]};
        lb_w4_sums(acc, 4, x, w + j * step, step, k);
        lb_w4_put4(out, j, acc, s, kind);
    }
    for (; j < right; j++) {
        int32_t acc = bias[j];
        lb_w4_sums(&acc, 1, x, w + j * step, step, k);
        lb_put(out, j, acc, s, kind);
    }
}

LB_INLINE void lb_w4_linear(const lb_linear_w4_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const lb_f32 *multiplier,
                            void *out, lb_kind kind, int32_t begin, int32_t end) {
    const lb_scaling scaling = {multiplier, p->y_zero, p->lo, p->hi};
    for (int32_t item = begin; item < end; item++) {
        const lb_block b = lb_w4_item(p->rows, p->n, p->block_rows, p->block_columns, item);
        for (int32_t i = b.top; i < b.bottom; i++)
            lb_w4_row(x + (ptrdiff_t)i * p->k, w, bias, p->k, b.left, b.right, lb_element(out, (ptrdiff_t)i * p->out_stride, kind),
                      &scaling, kind);
    }
}

/* The window of pixel `pixel` as one row, x_zero where no image is. */
LB_INLINE void lb_w4_gather(const lb_conv_w4_s8_params *p, const int8_t *x, int32_t pixel, int8_t *row) {
    const int32_t size = p->out_h * p->out_w;
    const int32_t top = pixel % size / p->out_w * p->stride_h - p->pad_h, left = pixel % p->out_w * p->stride_w - p->pad_w;
    const int8_t *image = x + (ptrdiff_t)(pixel / size) * p->in_h * p->in_w * p->in_c;
    const size_t bytes = (size_t)p->in_c;
    for (int32_t i = 0; i < p->kernel_h; i++)
        for (int32_t j = 0; j < p->kernel_w; j++, row += bytes) {
            const int32_t y = top + i * p->dilation_h, z = left + j * p->dilation_w;
            if (y >= 0 && y < p->in_h && z >= 0 && z < p->in_w)
                memcpy(row, image + ((ptrdiff_t)y * p->in_w + z) * p->in_c, bytes);
            else
                memset(row, p->x_zero, bytes);
        }
}

/* scratch: a window. */
LB_INLINE void lb_w4_conv(const lb_conv_w4_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const lb_f32 *multiplier,
                          void *out, lb_kind kind, void *scratch, int32_t begin, int32_t end) {
    const lb_scaling scaling = {multiplier, p->y_zero, p->lo, p->hi};
    for (int32_t i = lb_w4_pixel(p, begin); i < lb_w4_pixel(p, end); i++) {
        lb_w4_gather(p, x, i, scratch);
        lb_w4_row(scratch, w, bias, p->kernel_h * p->kernel_w * p->in_c, 0, p->out_c, lb_element(out, (ptrdiff_t)i * p->out_stride, kind),
                  &scaling, kind);
    }
}

#endif
