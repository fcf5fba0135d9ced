/* Weights of four bits, made ready once, and the memory that their kernels need. There is `ref` alone, which answers for every instruction
 * set, as in conv_pack.h. int4.h describes the layouts. lb.h has the rules of every contract. */
#ifndef LB_INT4_PACK_H
#define LB_INT4_PACK_H

#include "base/numerics.h"

#include <stdint.h>

/* ---- w4_sizes: sizes[0]: bytes of the packed weights (n, k); sizes[1]: bytes of the packed scales; sizes[2]: bytes of the scratch of
 * linear_w4_* for blocks of `rows` rows; sizes[3]: that of conv_w4_*, whose windows have k elements. */
typedef struct {
    int32_t rows;    /* >= 0 */
    int32_t k;       /* >= 0 */
    int32_t n;       /* >= 0 */
    int32_t segment; /* >= 1 */
    int32_t isa;
} lb_w4_sizes_params;

typedef void lb_w4_sizes_fn(const lb_w4_sizes_params *p, int64_t *sizes);

/* ---- w4_pack, w4_pack_scales: w is (n, k), -8 ... 7; scales are (n, segments). packed is aligned to 64. */
typedef struct {
    int32_t k;
    int32_t n;
    int32_t segment;
    int32_t isa;
} lb_w4_pack_params;

typedef void lb_w4_pack_fn(const lb_w4_pack_params *p, const int8_t *w, void *packed);

typedef lb_w4_pack_params lb_w4_pack_scales_params;

typedef void lb_w4_pack_scales_fn(const lb_w4_pack_scales_params *p, const lb_f32 *scales, lb_f32 *packed);

/* ---- w4_chunk: the `chunk` of int4.h, as long as it may be, for weights (n, k) and activations least ... 127 of that zero point. */
typedef struct {
    int32_t k;
    int32_t n;
    int32_t segment;
    int32_t least;
    int32_t x_zero;
} lb_w4_chunk_params;

typedef void lb_w4_chunk_fn(const lb_w4_chunk_params *p, const int8_t *w, int64_t *chunk);

#endif
