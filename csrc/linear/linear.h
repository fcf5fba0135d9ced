/* Rows times weights. lb.h has the rules of every contract. */
#ifndef LB_LINEAR_H
#define LB_LINEAR_H

#include "base/fields.h"
#include "base/numerics.h"

#include <stdint.h>

/* ---- linear_s8_sizes, linear_s8_pack: int8 weights (n, k), made ready once for linear_s8, conv_s8 and their other results ----------
 * The layout belongs to the instruction set, which has both of these and all of those contracts, or neither of these and takes weights as
 * `ref` does (armdsp, mve): then "of the same isa" means those of `ref`; or in quads (linear_s8_pack_dot4). It may depend on the weights
 * themselves: a method that is exact for these weights, and fast. `rows` is about how many rows one product will have, which decides
 * what is fast; what was packed is right for any number. The weights' scales and zero points play no part.
 *
 * bytes[0]: of `packed`, at most; bytes[1]: of the scratch of linear_s8 and conv_s8 for blocks of `rows` rows;
 * bytes[2]: of the scratch of linear_s8_pack. */
typedef struct {
    int32_t rows; /* >= 0 */
    int32_t k;    /* >= 0 */
    int32_t n;    /* >= 0 */
} lb_linear_s8_sizes_params;

typedef void lb_linear_s8_sizes_fn(const lb_linear_s8_sizes_params *p, int64_t *bytes);

typedef struct {
    int32_t rows; /* >= 0, as k and n */
    int32_t k;
    int32_t n;
    int32_t activations; /* where most of them will be. 1: near -128, as after a relu whose zero point that is. 2: near their zero point, on
                            both sides. 0: anywhere. */
} lb_linear_s8_pack_params;

/* used[0]: how many of the bytes of `packed` were needed; the rest may be cut off. packed and scratch are aligned to 64. */
typedef void lb_linear_s8_pack_fn(const lb_linear_s8_pack_params *p, const int8_t *w, void *packed, int64_t *used, void *scratch);

/* ---- linear_s8_pack_dot4: int8 weights (n, k) for linear_s8 and conv_s8 of avxvnni, avx512vnni, neon and neondot -----------------------
 * There is `ref` alone, which makes them for every machine. With c = n rounded up to 16 and d = k rounded up to 4, packed is an int32_t
 * that is 1 where a weight is -128 and else 0, and 15 zeros; c int32_t, the sums of each channel's weights; then (c / 16, d / 4, 16, 4)
 * weights, where the last two axes are channel and element of k; what does not exist is 0. 64 + c * (4 + d) bytes, aligned to 64.
 * The scratch of those instruction sets for blocks of m rows has 64 * m * (ceil(k / 64) | 1) bytes. */
typedef struct {
    int32_t k; /* >= 0 */
    int32_t n; /* >= 0 */
} lb_linear_s8_pack_dot4_params;

typedef void lb_linear_s8_pack_dot4_fn(const lb_linear_s8_pack_dot4_params *p, const int8_t *w, void *packed);

/* ---- linear_s8, linear_s8_f32: rows times weights, as a 1x1 conv_s8 ---------------------------------------------------------------------
 * x is rows x k. w is packed by linear_s8_pack of the same isa, or linear_s8_pack_dot4, aligned to 64; for `ref` that is (n, k) as it was.
 * Item: a block of block_rows x block_columns results. There are ceil(rows / block_rows) * ceil(n / block_columns), those of one
 * block of rows one after the other. scratch, aligned to 64: bytes[1] of linear_s8_sizes of the same isa for rows = block_rows, or that of
 * quads. */
typedef struct {
    LB_PRODUCT_FIELDS;
    LB_LIMIT_FIELDS;
} lb_linear_s8_params;

typedef void lb_linear_s8_fn(const lb_linear_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const lb_f32 *multiplier,
                             int8_t *out, void *scratch, int32_t begin, int32_t end);

typedef lb_linear_s8_params lb_linear_s8_f32_params; /* y_zero, lo and hi are not read */

typedef void lb_linear_s8_f32_fn(const lb_linear_s8_f32_params *p, const int8_t *x, const void *w, const int32_t *bias,
                                 const lb_f32 *multiplier, lb_f32 *out, void *scratch, int32_t begin, int32_t end);

#endif
