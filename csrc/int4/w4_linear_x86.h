/* linear_w4_*: the items of a layer. lb_w4_multiply stands before this (w4_avx2.h, w4_avxvnni.h or w4_avx512vnni.h). */
#ifndef LB_W4_LINEAR_X86_H
#define LB_W4_LINEAR_X86_H

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
    const lb_w4_product product = LB_W4_CHANNELS(p, p->k, p->n, w, bias, multiplier, out);
    lb_w4_linear(&product, to, 0, x, p->rows, p->block_rows, p->block_columns, scratch, begin, end);
}

LB_INLINE void lb_w4_linear_blocks(const lb_linear_w4_blocks_s8_params *p, const lb_result to, const int8_t *x, const float *x_scales,
                                   const void *w, const float *scales, const float *bias, void *out, void *scratch, int32_t begin,
                                   int32_t end) {
    const lb_w4_product product = {.cut = lb_w4_cut_of(p->k, p->segment),
                                   .to = to,
                                   .x_zero = p->x_zero,
                                   .packed = w,
                                   .n = p->n,
                                   .scales = scales,
                                   .x_scales = x_scales,
                                   .real_bias = bias,
                                   .y_scale = p->y_scale,
                                   .by = lb_divisor_of(p->y_scale),
                                   .out = out,
                                   LB_W4_OUTPUT(p)};
    lb_w4_linear(&product, to, 1, x, p->rows, p->block_rows, p->block_columns, scratch, begin, end);
}

/* The definition of a kernel whose weights have scales for blocks. */
#define LB_W4_BLOCKS_KERNEL(contract, isa, out_type, to)                                                                                   \
    void lb_##contract##__##isa(const lb_##contract##_params *p, const int8_t *x, const void *w, const float *scales, const float *bias,   \
                                out_type *out, void *scratch, int32_t begin, int32_t end) {                                                \
        lb_w4_linear_blocks(p, to, x, NULL, w, scales, bias, out, scratch, begin, end);                                                    \
    }

#endif
