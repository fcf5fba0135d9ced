/* The items of linear_s8. */
#ifndef LB_LINEAR_BLOCKS_H
#define LB_LINEAR_BLOCKS_H

#include "lb.h"

typedef struct {
    int32_t top, bottom, left, right;
} lb_block;

static inline lb_block lb_linear_block(const lb_linear_s8_params *p, int32_t item) {
    const int32_t across = (int32_t)(((int64_t)p->n + p->block_columns - 1) / p->block_columns);
    const int32_t top = item / across * p->block_rows, left = item % across * p->block_columns;
    return (lb_block){top, p->rows - top < p->block_rows ? p->rows : top + p->block_rows, left,
                      p->n - left < p->block_columns ? p->n : left + p->block_columns};
}

#endif
