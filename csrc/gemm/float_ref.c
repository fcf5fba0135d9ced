#include "lb.h"

#include <stddef.h>

lb_matmul_f32_fn lb_matmul_f32__ref;

void lb_matmul_f32__ref(const lb_matmul_f32_params *p, const float *a, const float *b, float *out, void *scratch, int32_t begin,
                        int32_t end) {
    (void)scratch;
    const int32_t blocks = (p->m + p->block - 1) / p->block;
    for (int32_t item = begin; item < end; item++) {
        const int32_t pair = item / blocks, top = item % blocks * p->block, bottom = p->m - top < p->block ? p->m : top + p->block;
        const int32_t i0 = pair / (p->shape[1] * p->shape[2]), i1 = pair / p->shape[2] % p->shape[1], i2 = pair % p->shape[2];
        const float *left = a + (ptrdiff_t)i0 * p->a_batch[0] + (ptrdiff_t)i1 * p->a_batch[1] + (ptrdiff_t)i2 * p->a_batch[2];
        const float *right = b + (ptrdiff_t)i0 * p->b_batch[0] + (ptrdiff_t)i1 * p->b_batch[1] + (ptrdiff_t)i2 * p->b_batch[2];
        for (int32_t i = top; i < bottom; i++)
            for (int32_t j = 0; j < p->n; j++) {
                float sum = 0.0f;
                for (int32_t k = 0; k < p->k; k++)
                    sum += left[(ptrdiff_t)i * p->a_row + k] * right[(ptrdiff_t)k * p->b_row + (ptrdiff_t)j * p->b_column];
                out[((ptrdiff_t)pair * p->m + i) * p->n + j] = sum;
            }
    }
}
