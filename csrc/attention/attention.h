/* Attention in integers (docs/arithmetic.md section 6). lb.h has the rules of every contract. */
#ifndef LB_ATTENTION_H
#define LB_ATTENTION_H

#include "base/numerics.h"

#include <stdint.h>

/* ---- attention_s8, attention_s16: queries, keys and values of 8 or of 16 bits -----------------------------------------------------
 * For each of batch x heads, with rows i of queries and j of keys:
 *
 *   u[i][j] = fl32(sum of (q - q_zero) * (k - k_zero)) * score_scale, then + mask, or -inf where a mask of bytes is 0;
 *             -inf for j > i if causal
 *   p[i][j] = rne(2^20 * lb_exp(u[i][j] - max u[i]))                         NaN is passed over by the maximum and gives 0
 *   out[i]  = fl32(sum of p * (v - v_zero)) * (multiplier / fl32(sum of p))  a float, or clamp(rne(...) + y_zero); 0 if all p are 0
 *
 * Features of a row are neighbours. Strides are those of batch, head and row, in elements; one that is 0 repeats. Those of the mask are
 * for batch, head, row and key (the last 0 or 1). Item: a block of block_rows queries of a head; there are batch * heads *
 * ceil(rows / block_rows), those of one head one after the other.
 *
 * scratch, aligned to 64: with K = keys, E = features, V = values rounded up to 16 and B = bytes of an element of q,
 * 24 * K * B + 4 * K * (E + V) * B + 24 * (E + 2 * K) bytes; `ref` and armdsp take 4 * keys. The caller proves that sums stay below 2^52
 * and keys <= 8192, and with 8 bits that those of q * k stay below 2^31. */
typedef struct {
    int32_t q_stride[3];
    int32_t k_stride[3];
    int32_t v_stride[3];
    int32_t mask_stride[4];
    int32_t out_stride[3];
    int32_t q_offset; /* elements of q before the first */
    int32_t k_offset;
    int32_t v_offset;
    int32_t batch;
    int32_t heads;
    int32_t rows;
    int32_t keys;
    int32_t features;
    int32_t values;
    int32_t block_rows; /* >= 1 */
    int32_t mask_bytes; /* of an element: 0 no mask (it is not read), 1 bytes of 0 or 1, 4 floats */
    int32_t causal;     /* 0 or 1 */
    int32_t out_bytes;  /* of an element: 1, 2, or 4 for floats */
    int32_t q_zero;
    int32_t k_zero;
    int32_t v_zero;
    int32_t y_zero;
    int32_t lo;
    int32_t hi;
    lb_f32 score_scale; /* finite */
    lb_f32 multiplier;  /* finite, > 0 */
} lb_attention_s8_params;

typedef void lb_attention_s8_fn(const lb_attention_s8_params *p, const int8_t *q, const int8_t *k, const int8_t *v, const void *mask,
                                void *out, void *scratch, int32_t begin, int32_t end);

typedef lb_attention_s8_params lb_attention_s16_params;

typedef void lb_attention_s16_fn(const lb_attention_s16_params *p, const int16_t *q, const int16_t *k, const int16_t *v, const void *mask,
                                 void *out, void *scratch, int32_t begin, int32_t end);

#endif
