/* matmul_f32 on vectors of any width: the words of f32_avx2.h or another stand before this. */
#ifndef LB_MATMUL_F32_SIMD_H
#define LB_MATMUL_F32_SIMD_H

#include "lb.h"
#include "gemm/panel_f32.h"

void LB_SIMD(matmul_f32)(const lb_matmul_f32_params *p, const float *a, const float *b, float *out, void *scratch, int32_t begin,
                         int32_t end) {
    const int32_t blocks = (p->m + p->block - 1) / p->block;
    for (int32_t item = begin; item < end; item++) {
        const int32_t pair = item / blocks, top = item % blocks * p->block, bottom = p->m - top < p->block ? p->m : top + p->block;
        const int32_t i0 = pair / (p->shape[1] * p->shape[2]), i1 = pair / p->shape[2] % p->shape[1], i2 = pair % p->shape[2];
        const float *left = a + (ptrdiff_t)i0 * p->a_batch[0] + (ptrdiff_t)i1 * p->a_batch[1] + (ptrdiff_t)i2 * p->a_batch[2];
        const float *right = b + (ptrdiff_t)i0 * p->b_batch[0] + (ptrdiff_t)i1 * p->b_batch[1] + (ptrdiff_t)i2 * p->b_batch[2];
        lb_rows_times(left + (ptrdiff_t)top * p->a_row, p->a_row, bottom - top, p->k, right, p->b_row, p->b_column, p->n, scratch,
                      out + ((ptrdiff_t)pair * p->m + top) * p->n, p->n);
    }
}

#endif
