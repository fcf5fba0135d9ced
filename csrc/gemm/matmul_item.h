/* An item of matmul_f32: rows top ... bottom - 1 of a pair of matrices. */
#ifndef LB_MATMUL_ITEM_H
#define LB_MATMUL_ITEM_H

#include "lb.h"

#include <stddef.h>

typedef struct {
    int32_t pair, top, bottom;
    const float *a, *b; /* the pair */
} lb_matmul_item;

static inline lb_matmul_item lb_matmul_item_of(const lb_matmul_f32_params *p, const float *a, const float *b, int32_t item) {
    const int32_t blocks = (p->m + p->block - 1) / p->block;
    const int32_t pair = item / blocks, top = item % blocks * p->block, bottom = p->m - top < p->block ? p->m : top + p->block;
    const int32_t i0 = pair / (p->shape[1] * p->shape[2]), i1 = pair / p->shape[2] % p->shape[1], i2 = pair % p->shape[2];
    return (lb_matmul_item){pair, top, bottom,
                            a + (ptrdiff_t)i0 * p->a_batch[0] + (ptrdiff_t)i1 * p->a_batch[1] + (ptrdiff_t)i2 * p->a_batch[2],
                            b + (ptrdiff_t)i0 * p->b_batch[0] + (ptrdiff_t)i1 * p->b_batch[1] + (ptrdiff_t)i2 * p->b_batch[2]};
}

#endif
