/* Integer matrix products by themselves; the layers that use them follow their packing. lb.h has the rules of every contract. */
#ifndef LB_GEMM_H
#define LB_GEMM_H

#include "base/fields.h"
#include "base/numerics.h"

#include <stdint.h>

/* ---- gemm_s8: integer matrix products of up to eight bits a side, exact --------------------------------------------------------
 *
 * a is m x k, b is k x n, both int8, or uint8 where `*_unsigned` is 1 (the pointer's type is a formality then). k is cut into
 * segments of `segment` elements, the last one shorter, at least one: s = max(1, ceil(k / segment)). A zero point belongs to a
 * row of a or a column of b within a segment and lies in the range of its type. With
 *
 *   acc[s][i][j] = sum over the k of segment s of (a[i][k] - a_zero_points[s][i]) * (b[k][j] - b_zero_points[s][j])
 *
 * gemm_s8_s32 gives acc (one segment), gemm_s8_f32 its scaled sum. The caller proves that no acc leaves int32; a kernel may wrap
 * on the way there, because sums modulo 2^32 that end in range are exact.
 *
 * b is packed first, by the same instruction set as the product: the layout belongs to the pair (gemm_s8, isa), and an
 * instruction set has all four of these contracts or none. `packed` and `scratch` are aligned to 64 bytes. */

/* bytes[0]: of `packed` for k, n, segment; bytes[1]: of `scratch` for m, k, segment. */
typedef struct {
    int32_t m;       /* >= 0 */
    int32_t k;       /* >= 0 */
    int32_t n;       /* >= 0 */
    int32_t segment; /* >= 1 */
} lb_gemm_s8_sizes_params;

typedef void lb_gemm_s8_sizes_fn(const lb_gemm_s8_sizes_params *p, int64_t *bytes);

/* b[k][j] stands at b[k * row_stride + j * column_stride]; zero_points is s x n. */
typedef struct {
    int64_t row_stride;    /* elements, of any sign */
    int64_t column_stride; /* elements, of any sign */
    int32_t k;             /* >= 0 */
    int32_t n;             /* >= 0 */
    int32_t segment;       /* >= 1 */
    int32_t b_unsigned;    /* 0 or 1 */
} lb_gemm_s8_pack_params;

typedef void lb_gemm_s8_pack_fn(const lb_gemm_s8_pack_params *p, const int8_t *b, const int32_t *zero_points, void *packed);

/* out[i][j] = acc[0][i][j]. b was packed with the same k and n, and segment = max(1, k). */
typedef struct {
    LB_GEMM_FIELDS;
    int32_t a_unsigned; /* 0 or 1 */
} lb_gemm_s8_s32_params;

typedef void lb_gemm_s8_s32_fn(const lb_gemm_s8_s32_params *p, const int8_t *a, const int32_t *a_zero_points, const void *packed,
                               int32_t *out, void *scratch);

/* out[i][j] = start, then for each segment in ascending order out = out + fl32(acc[s][i][j]) * (a_scales[s][i] * b_scales[s][j]),
 * every operation rounded to fp32. start = -0.0 leaves a single product as it is; +0.0 is where a sum begins. */
typedef struct {
    LB_GEMM_FIELDS;
    int32_t segment;    /* as b was packed */
    int32_t a_unsigned; /* 0 or 1 */
    lb_f32 start;       /* 0.0 or -0.0 */
} lb_gemm_s8_f32_params;

typedef void lb_gemm_s8_f32_fn(const lb_gemm_s8_f32_params *p, const int8_t *a, const int32_t *a_zero_points, const lb_f32 *a_scales,
                               const void *packed, const lb_f32 *b_scales, lb_f32 *out, void *scratch);

/* ---- gemm_s16_s64: out[i][j] = sum over k of a[i][k] * b[k][j], exact for every value and k. a is m x k, b k x n. -------------- */
typedef struct {
    int64_t a_stride;   /* elements from row to row */
    int64_t b_stride;   /* elements from row to row */
    int64_t out_stride; /* elements from row to row, >= n */
    int32_t m;          /* >= 0 */
    int32_t k;          /* >= 0 */
    int32_t n;          /* >= 0 */
} lb_gemm_s16_s64_params;

/* scratch: 32 * (k + 1) bytes, aligned to 64. */
typedef void lb_gemm_s16_s64_fn(const lb_gemm_s16_s64_params *p, const int16_t *a, const int16_t *b, int64_t *out, void *scratch);

/* ---- gemm_b1_s32: products of -1 and +1, eight a byte, bit 1 for +1 (XNOR and popcount) ------------------------------------------
 * a is m rows, b is n rows (the columns of the right side), each of `words` words; bits after the k-th are equal in both, zero
 * for instance. out[i][j] = k - 2 * (number of bits in which a[i] and b[j] differ). */
typedef struct {
    int64_t out_stride; /* elements from row to row, >= n */
    int32_t m;          /* >= 0 */
    int32_t k;          /* 0 ... 64 * words */
    int32_t n;          /* >= 0 */
    int32_t words;      /* >= 0 */
} lb_gemm_b1_s32_params;

typedef void lb_gemm_b1_s32_fn(const lb_gemm_b1_s32_params *p, const uint64_t *a, const uint64_t *b, int32_t *out);

#endif
