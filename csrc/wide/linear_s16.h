/* linear_s16: one accumulator of 64 bits. */
#ifndef LB_LINEAR_S16_H
#define LB_LINEAR_S16_H

#include "linear/linear_blocks.h"

#include <stddef.h>

static inline int64_t lb_dot_s16(const lb_linear_s8_params *p, const int16_t *x, const void *weights, int64_t bias, int32_t row,
                                 int32_t column) {
    x += (ptrdiff_t)row * p->k;
    const int16_t *w = (const int16_t *)weights + (ptrdiff_t)column * p->k;
    int64_t acc = bias;
    for (int32_t i = 0; i < p->k; i++)
        acc += (int64_t)(x[i] - p->x_zero) * w[i];
    return acc;
}

#endif
