/* Linear layers and embeddings whose weights stay in GGUF's block formats. What holds for every contract stands in lb.h.
 *
 * `format` is GGUF's own number: F32 0, F16 1, Q4_0 2, Q4_1 3, Q5_0 6, Q5_1 7, Q8_0 8, Q2_K 10, Q3_K 11, Q4_K 12, Q5_K 13, Q6_K 14,
 * IQ4_NL 20, BF16 30. block_formats.h says how a row of each stands in a file. A weight of the integer formats is f * d * (c - z) + m:
 * a code c, a constant z, an integer f of 16 neighbours, floats d and m of 32 neighbours.
 *
 * These contracts promise bits. A row's bits depend on nothing but the row: not on how many rows there are. No multiply-add is fused.
 *
 * Activations are rounded in blocks of 32 neighbours, each a record of LB_BLOCK_RECORD bytes (block_record.h):
 *
 *   a = largest |x|;  s = a / 127;  q = rne(x * (127 / a));  h0, h1 = sums of q over both halves of 16;  t = s * fl32(h0 + h1)
 *
 * a < 2^-100: s and all q are 0. An x that is not finite: s and t are NaN, all q are 0.
 */
#ifndef LB_BLOCKS_H
#define LB_BLOCKS_H

#include <stdint.h>

/* ---- block_quantize: rows of `size` floats (a multiple of 32) as size / 32 records each. Item: a row. */
typedef struct {
    int32_t size;
} lb_block_quantize_params;

typedef void lb_block_quantize_fn(const lb_block_quantize_params *p, const float *x, uint8_t *out, int32_t begin, int32_t end);

/* ---- block_pack: the rows of a file in panels of 16, which block_linear_s8 and block_linear_f32 read (block_panel.h).
 *
 * `packed` is aligned to 64. Rows that do not exist are zeros. Item: a panel, ceil(n / 16) of them. */
typedef struct {
    int32_t format;
    int32_t k; /* a multiple of the format's block: 256 for _K, 32 for the others, 1 for floats */
    int32_t n;
} lb_block_pack_params;

typedef void lb_block_pack_fn(const lb_block_pack_params *p, const uint8_t *w, uint8_t *packed, int32_t begin, int32_t end);

/* ---- block_linear_s8: records times the integer formats. For each row and output:
 *
 *   y = +0;  v = +0;  for blocks of 32 in ascending order:
 *     y = y + fl32(sum of f * q * (c - z)) * (d * s)
 *     v = v + m * t                                   Q4_1, Q5_1, Q4_K, Q5_K
 *     v = v + fl32(f0' * h0 + f1' * h1) * (m * s)     Q2_K: offsets m have factors f' of their own for 16 neighbours
 *   y = y + v where there are offsets;  y = y + bias[output];  y = y + residual[row][output], as far as they are given
 *
 * d and m of _K are products of a half and an integer of 6 bits, which are exact. The sums of integers fit 24 bits but for Q8_0 and IQ4_NL,
 * which fit 20.
 * residual and out may be the same memory. scratch, aligned to 64: 32 * k + 8 * k + 4096 bytes; `ref` needs none. Item: a panel. */
typedef struct {
    int32_t format;
    int32_t rows;
    int32_t k;
    int32_t n;
    int32_t out_stride; /* floats from row to row, of out and residual */
    int32_t has_bias;
    int32_t has_residual;
} lb_block_linear_s8_params;

typedef void lb_block_linear_s8_fn(const lb_block_linear_s8_params *p, const uint8_t *x, const uint8_t *w, const float *bias,
                                   const float *residual, float *out, void *scratch, int32_t begin, int32_t end);

/* ---- block_linear_f32: rows of floats times F32, F16 or BF16, which become floats: y = +0; for k in ascending order y = y + x * w; then
 * bias and residual as above. scratch is not used. Item: a panel. */
typedef lb_block_linear_s8_params lb_block_linear_f32_params;

typedef void lb_block_linear_f32_fn(const lb_block_linear_f32_params *p, const float *x, const uint8_t *w, const float *bias,
                                    const float *residual, float *out, void *scratch, int32_t begin, int32_t end);

/* ---- block_gather: rows of a file as floats, out[i] = row ids[i]; an id outside 0 ... n - 1 gives zeros. Q4_1: fl32(d * c) + m, and so
 * for all formats: one rounding for the product, one for the sum. Item: an id. */
typedef struct {
    int32_t format;
    int32_t k;
    int32_t n;
} lb_block_gather_params;

typedef void lb_block_gather_fn(const lb_block_gather_params *p, const uint8_t *w, const int32_t *ids, float *out, int32_t begin,
                                int32_t end);

#endif
