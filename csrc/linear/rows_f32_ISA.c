/* ISA: avxvnni avx512vnni */
#include "linear/dot4/dot4_ISA.h"

lb_linear_s8_rows_f32_fn lb_linear_s8_rows_f32__ISA;

void lb_linear_s8_rows_f32__ISA(const lb_linear_s8_rows_f32_params *p, const int8_t *x, const void *w, const float *bias,
                                const float *scales, const float *x_scales, float *out, void *scratch, int32_t begin, int32_t end) {
    const lb_dot4_product product = {.packed = w,
                                     .k = p->k,
                                     .n = p->n,
                                     .x_zero = p->x_zero,
                                     .multiplier = scales,
                                     .out = out,
                                     .out_stride = p->out_stride,
                                     .a = scratch,
                                     .stride = lb_dot4_stride(p->k),
                                     .row_multiplier = x_scales,
                                     .real_bias = bias};
    lb_dot4_blocks(&product, p, x, LB_DOT4_ROWS, scratch, begin, end);
}
