/* The items of attention, and its portable form for elements of any width. */
#ifndef LB_ATTENTION_SHARED_H
#define LB_ATTENTION_SHARED_H

#include "lb.h"
#include "base/elements.h"
#include "base/exp.h"

#include <stddef.h>

#define LB_ONE lb_f32_of_bits(0x49800000u) /* the largest probability of a row: 2^20, so that the product with it is exact */
#define LB_MINUS_INFINITY lb_f32_of_bits(0xff800000u)

/* The queries of an item, and where they and their keys, values, mask and results start. */
typedef struct {
    int32_t head; /* of all heads of all batches */
    int32_t top, bottom;
    ptrdiff_t q, k, v, mask, out;
} lb_attention_block;

static inline lb_attention_block lb_attention_item(const lb_attention_s8_params *p, int32_t item) {
    const int32_t blocks = (p->rows + p->block_rows - 1) / p->block_rows, head = item / blocks, top = item % blocks * p->block_rows;
    const ptrdiff_t b = head / p->heads, h = head % p->heads;
    return (lb_attention_block){head,
                                top,
                                p->rows - top < p->block_rows ? p->rows : top + p->block_rows,
                                p->q_offset + b * p->q_stride[0] + h * p->q_stride[1],
                                p->k_offset + b * p->k_stride[0] + h * p->k_stride[1],
                                p->v_offset + b * p->v_stride[0] + h * p->v_stride[1],
                                b * p->mask_stride[0] + h * p->mask_stride[1],
                                b * p->out_stride[0] + h * p->out_stride[1]};
}

/* Keys that row i may attend to, apart from the mask. */
static inline int32_t lb_attention_keys(const lb_attention_s8_params *p, int32_t row) {
    return p->causal && row + 1 < p->keys ? row + 1 : p->keys;
}

static inline lb_f32 lb_masked(const lb_attention_s8_params *p, const void *mask, ptrdiff_t at, lb_f32 u) {
    if (p->mask_bytes == 1)
        return ((const uint8_t *)mask)[at] ? u : LB_MINUS_INFINITY;
    return p->mask_bytes == 4 ? lb_f32_add(u, ((const lb_f32 *)mask)[at]) : u;
}

/* The factor of the second sum. Where all p are 0 that is 0, and the factor does not matter as long as it is finite. */
static inline lb_f32 lb_attention_factor(const lb_attention_s8_params *p, int64_t total) {
    return lb_f32_div(p->multiplier, lb_f32_from_s64(total ? total : 1));
}

/* In the place of scores, the largest of which is `top`, the bits of their probabilities, which are integers; gives their sum. */
static inline int64_t lb_attention_shares(lb_f32 *scores, int32_t keys, lb_f32 top) {
    int64_t total = 0;
    for (int32_t j = 0; j < keys; j++) {
        const int32_t share = lb_round_clamp(lb_f32_mul(LB_ONE, lb_exp(lb_f32_sub(scores[j], top))), 0, 0, 1 << 20);
        scores[j] = lb_f32_of_bits((uint32_t)share);
        total += share;
    }
    return total;
}

/* `bytes` of an element are a constant where this is called, so that a compiler leaves out the other width. scratch holds a score, then the
 * bits of a probability, which is an integer, for each key. */
static inline void lb_attention_ref(const lb_attention_s8_params *p, int32_t bytes, const void *q, const void *k, const void *v,
                                    const void *mask, void *out, void *scratch, int32_t begin, int32_t end) {
    lb_f32 *scores = scratch;
    for (int32_t item = begin; item < end; item++) {
        const lb_attention_block b = lb_attention_item(p, item);
        for (int32_t row = b.top; row < b.bottom; row++) {
            const int32_t keys = lb_attention_keys(p, row);
            const ptrdiff_t query = b.q + (ptrdiff_t)row * p->q_stride[2];
            lb_f32 top = LB_MINUS_INFINITY;
            for (int32_t j = 0; j < keys; j++) {
                int64_t acc = 0;
                for (int32_t e = 0; e < p->features; e++)
                    acc += (int64_t)(lb_element(q, bytes, query + e) - p->q_zero) *
                           (lb_element(k, bytes, b.k + (ptrdiff_t)j * p->k_stride[2] + e) - p->k_zero);
                const ptrdiff_t at = b.mask + (ptrdiff_t)row * p->mask_stride[2] + (ptrdiff_t)j * p->mask_stride[3];
                scores[j] = lb_masked(p, mask, at, lb_f32_mul(lb_f32_from_s64(acc), p->score_scale));
                top = lb_f32_less(top, scores[j]) ? scores[j] : top;
            }
            const int64_t total = lb_attention_shares(scores, keys, top);
            const lb_f32 factor = lb_attention_factor(p, total);
            for (int32_t f = 0; f < p->values; f++) {
                int64_t acc = 0;
                for (int32_t j = 0; j < keys; j++)
                    acc += (int64_t)lb_f32_bits(scores[j]) * (lb_element(v, bytes, b.v + (ptrdiff_t)j * p->v_stride[2] + f) - p->v_zero);
                lb_put(out, p->out_bytes, b.out + (ptrdiff_t)row * p->out_stride[2] + f, lb_f32_mul(lb_f32_from_s64(acc), factor),
                       p->y_zero, p->lo, p->hi);
            }
        }
    }
}

#endif
