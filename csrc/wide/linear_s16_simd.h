/* linear_s16 on vectors of any width: the words of dot2_avx2.h or dot2_avx512vnni.h stand before this. */
#ifndef LB_LINEAR_S16_SIMD_H
#define LB_LINEAR_S16_SIMD_H

#include "linear/linear_blocks.h"
#include "wide/dot2_simd.h"

static void lb_dot2_linear(const lb_linear_s8_params *p, const int16_t *x, const void *w, const int64_t *bias, const float *multiplier,
                           void *out, int32_t out_bytes, int32_t begin, int32_t end) {
    lb_dot2_product product = {.packed = w,
                               .n = p->n,
                               .k = p->k,
                               .x_zero = p->x_zero,
                               .bias = bias,
                               .multiplier = multiplier,
                               .stride = p->k,
                               .out = out,
                               .out_stride = p->out_stride,
                               .target = lb_dot2_target_of(out_bytes, p->y_zero, p->lo, p->hi)};
    for (int32_t item = begin; item < end; item++) {
        const lb_block b = lb_linear_block(p, item);
        product.x = x + (ptrdiff_t)b.top * p->k;
        lb_dot2_multiply(&product, b.bottom - b.top, b.top, b.left, b.right);
    }
}

#endif
