/* matmul_f32 on vectors of any width: the words of f32_avx2.h or another stand before this. */
#ifndef LB_MATMUL_F32_SIMD_H
#define LB_MATMUL_F32_SIMD_H

#include "lb.h"
#include "gemm/matmul_item.h"
#include "gemm/panel_f32.h"

void LB_SIMD(matmul_f32)(const lb_matmul_f32_params *p, const float *a, const float *b, float *out, void *scratch, int32_t begin,
                         int32_t end) {
    for (int32_t item = begin; item < end; item++) {
        const lb_matmul_item m = lb_matmul_item_of(p, a, b, item);
        lb_rows_times(m.a + (ptrdiff_t)m.top * p->a_row, p->a_row, m.bottom - m.top, p->k, m.b, p->b_row, p->b_column, p->n, scratch,
                      out + ((ptrdiff_t)m.pair * p->m + m.top) * p->n, p->n);
    }
}

#endif
