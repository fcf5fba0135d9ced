#include "gemm/matmul_item.h"

lb_matmul_f32_fn lb_matmul_f32__ref;

void lb_matmul_f32__ref(const lb_matmul_f32_params *p, const float *a, const float *b, float *out, void *scratch, int32_t begin,
                        int32_t end) {
    (void)scratch;
    for (int32_t item = begin; item < end; item++) {
        const lb_matmul_item m = lb_matmul_item_of(p, a, b, item);
        for (int32_t i = m.top; i < m.bottom; i++)
            for (int32_t j = 0; j < p->n; j++) {
                float sum = 0.0f;
                for (int32_t k = 0; k < p->k; k++)
                    sum += m.a[(ptrdiff_t)i * p->a_row + k] * m.b[(ptrdiff_t)k * p->b_row + (ptrdiff_t)j * p->b_column];
                out[((ptrdiff_t)m.pair * p->m + i) * p->n + j] = sum;
            }
    }
}
