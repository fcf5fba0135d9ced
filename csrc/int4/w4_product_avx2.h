/* Packed rows times panels of 4-bit weights, and what becomes of the sums: shared by linear_w4_* and conv_w4_*. */
#ifndef LB_W4_PRODUCT_AVX2_H
#define LB_W4_PRODUCT_AVX2_H

#ifdef LB_DOT4_AVX512VNNI_H
#include "int4/w4_avx512vnni.h"
#else
#include "int4/w4_multiply_avx2.h"
#endif

/* The items of a linear layer. */
LB_INLINE void lb_w4_linear(const lb_w4_product *p, const lb_result to, const int blocks, const int8_t *x, int32_t rows, int32_t block_rows,
                            int32_t block_columns, void *scratch, int32_t begin, int32_t end) {
    const lb_w4_scratch s = lb_w4_scratch_at(scratch, block_rows, &p->cut);
    int32_t packed = -1; /* the first of the rows in scratch */
    for (int32_t item = begin; item < end; item++) {
        const lb_block b = lb_w4_item(rows, p->n, block_rows, block_columns, item);
        for (int32_t i = 0; i < b.bottom - b.top && packed != b.top; i++)
            lb_w4_pack_row(x + (ptrdiff_t)(b.top + i) * p->cut.k, p, &s, i, lb_w4_are_few(p, b.bottom - b.top));
        packed = b.top;
        lb_w4_multiply(p, to, blocks, &s, b.top, b.bottom - b.top, b.left, b.right);
    }
}

LB_INLINE void lb_w4_linear_channels(const lb_linear_w4_s8_params *p, const lb_result to, const int8_t *x, const void *w,
                                     const int32_t *bias, const float *multiplier, void *out, void *scratch, int32_t begin, int32_t end) {
    const lb_w4_product product = {.cut = lb_w4_cut_of(p->k, p->k ? p->k : 1),
                                   .chunk = p->chunk,
                                   .packed = w,
                                   .n = p->n,
                                   .bias = bias,
                                   .scales = multiplier,
                                   .out = out,
                                   .out_stride = p->out_stride,
                                   .clamp = lb_clamp16_of(p->y_zero, p->lo, p->hi),
                                   .y_zero = p->y_zero,
                                   .lo = p->lo,
                                   .hi = p->hi};
    lb_w4_linear(&product, to, 0, x, p->rows, p->block_rows, p->block_columns, scratch, begin, end);
}

LB_INLINE void lb_w4_linear_blocks(const lb_linear_w4_blocks_s8_params *p, const lb_result to, const int8_t *x, const float *x_scales,
                                   const void *w, const float *scales, const float *bias, void *out, void *scratch, int32_t begin,
                                   int32_t end) {
    const lb_w4_product product = {.cut = lb_w4_cut_of(p->k, p->segment),
                                   .to = to,
                                   .chunk = p->chunk,
                                   .x_zero = p->x_zero,
                                   .packed = w,
                                   .n = p->n,
                                   .scales = scales,
                                   .x_scales = x_scales,
                                   .real_bias = bias,
                                   .y_scale = p->y_scale,
                                   .by = lb_divisor_of(p->y_scale),
                                   .out = out,
                                   .out_stride = p->out_stride,
                                   .clamp = lb_clamp16_of(p->y_zero, p->lo, p->hi),
                                   .y_zero = p->y_zero,
                                   .lo = p->lo,
                                   .hi = p->hi};
    lb_w4_linear(&product, to, 1, x, p->rows, p->block_rows, p->block_columns, scratch, begin, end);
}

#endif
