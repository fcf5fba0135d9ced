/* The items of attention_f32, and the effect of a mask on a score. */
#ifndef LB_ATTENTION_F32_H
#define LB_ATTENTION_F32_H

#include "lb.h"
#include "base/scalar_f32.h"

#include <stddef.h>

typedef struct {
    int32_t outer, inner, top, bottom;
} lb_attention_item;

static inline lb_attention_item lb_attention_at(const lb_attention_f32_params *p, int32_t item) {
    const int32_t blocks = (p->rows + p->block - 1) / p->block, head = item / blocks, top = item % blocks * p->block;
    return (lb_attention_item){head / p->inner, head % p->inner, top, p->rows - top < p->block ? p->rows : top + p->block};
}

static inline ptrdiff_t lb_head(const int32_t stride[3], lb_attention_item b) {
    return (ptrdiff_t)b.outer * stride[0] + (ptrdiff_t)b.inner * stride[1];
}

/* The scores of row i and keys 0 ... keys - 1 as the mask leaves them. */
static inline void lb_masked(const lb_attention_f32_params *p, const void *mask, lb_attention_item b, int32_t i, int32_t keys,
                             float *scores) {
    const ptrdiff_t at = lb_head(p->mask_stride, b) + (ptrdiff_t)i * p->mask_stride[2], step = p->mask_stride[3];
    if (p->mask_kind == 1)
        for (int32_t j = 0; j < keys; j++)
            scores[j] += ((const float *)mask)[at + j * step];
    if (p->mask_kind == 2)
        for (int32_t j = 0; j < keys; j++)
            scores[j] = ((const uint8_t *)mask)[at + j * step] ? scores[j] : -LB_INFINITY;
    if (p->causal)
        for (int32_t j = i + 1; j < keys; j++)
            scores[j] = -LB_INFINITY;
}

#endif
