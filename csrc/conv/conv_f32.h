/* The items of conv_f32. */
#ifndef LB_CONV_F32_H
#define LB_CONV_F32_H

#include "lb.h"

/* Pixels first ... last - 1 (counted through the batch), channels left ... right - 1 of a group. */
typedef struct {
    int32_t first, last, group, left, right;
} lb_conv_f32_item;

static inline lb_conv_f32_item lb_conv_f32_at(const lb_conv_f32_params *p, int32_t item) {
    const int32_t n = p->out_c / p->groups, across = (n + p->block_columns - 1) / p->block_columns, pixels = p->batch * p->out_h * p->out_w;
    const int32_t first = item / (across * p->groups) * p->block, left = item % across * p->block_columns;
    return (lb_conv_f32_item){first, pixels - first < p->block ? pixels : first + p->block, item / across % p->groups, left,
                              n - left < p->block_columns ? n : left + p->block_columns};
}

#endif
