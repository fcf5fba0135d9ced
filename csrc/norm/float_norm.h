/* Softmax, norms and attention of floats. lb.h has the rules of every contract, float_product.h those of floats. */
#ifndef LB_FLOAT_NORM_H
#define LB_FLOAT_NORM_H

#include <stdint.h>

/* ---- softmax_f32: along the middle axis of (outer, n, inner), e = exp(x - the largest x), out = e / sum of e; with `logarithm` 1,
 * out = (x - the largest x) - log(sum of e). Off by at most (n / 8 + 16) * 2^-23 of 1 (of the largest |out| for logarithms). In place.
 * Item: an outer index. */
typedef struct {
    int32_t outer;
    int32_t n;
    int32_t inner;
    int32_t logarithm; /* 0 or 1 */
} lb_softmax_f32_params;

typedef void lb_softmax_f32_fn(const lb_softmax_f32_params *p, const float *x, float *out, int32_t begin, int32_t end);

/* ---- layer_norm_f32: rows of n elements, out = (x - m) / sqrt(mean of (x - m)^2 + eps) * scale + bias, where m is the mean of the row,
 * or 0 if not `centered` (RMS norm). scale and bias have n elements. Off by at most (n / 8 + 16) * 2^-22 * (largest |x - m| * |scale| /
 * root
 * + |bias|). In place. Item: a row. */
typedef struct {
    int32_t rows;
    int32_t n; /* >= 1 */
    int32_t centered;
    float eps;
} lb_layer_norm_f32_params;

typedef void lb_layer_norm_f32_fn(const lb_layer_norm_f32_params *p, const float *x, const float *scale, const float *bias, float *out,
                                  int32_t begin, int32_t end);

/* ---- group_norm_f32: as layer_norm_f32, centered, of rows of channels * spatial elements, where each run of `spatial` has the scale and
 * bias of its channel. Row r is group r % groups: its channels start at r % groups * channels. In place. Item: a row. */
typedef struct {
    int32_t rows;
    int32_t groups;
    int32_t channels; /* of a group, >= 1 */
    int32_t spatial;  /* >= 1 */
    float eps;
} lb_group_norm_f32_params;

typedef void lb_group_norm_f32_fn(const lb_group_norm_f32_params *p, const float *x, const float *scale, const float *bias, float *out,
                                  int32_t begin, int32_t end);

/* ---- attention_f32: for each of outer x inner heads, out = softmax(q k' * scale + mask) v
 * ------------------------------------------------ q is (rows, depth), k (keys, depth), v (keys, width), out (rows, width): elements of a
 * row are neighbours, rows and heads are
 * *_stride[0] (outer), [1] (inner) and [2] (row) elements apart. mask_kind 0: there is none; 1: mask holds floats that are added; 2: bytes,
 * where 0 hides a key. mask[...] stands at mask_stride[0] (outer), [1] (inner), [2] (row), [3] (key). causal: row i sees the keys up to i.
 * A row that sees no key gives 0. Off by at most (depth + keys + 16) * 2^-22 * the largest |v|, times 1 + the largest |q k' * scale|.
 * Item: `block` rows of a head, outer * inner * ceil(rows / block) of them.
 * scratch, aligned to 64: 4 * block * (keys + 16) bytes, and 4 * (depth + keys) for each column of a tile (float_product.h). */
typedef struct {
    int32_t outer;
    int32_t inner;
    int32_t rows;
    int32_t keys;
    int32_t depth;
    int32_t width;
    int32_t block; /* >= 1 */
    int32_t causal;
    int32_t mask_kind;
    int32_t q_stride[3];
    int32_t k_stride[3];
    int32_t v_stride[3];
    int32_t out_stride[3];
    int32_t mask_stride[4];
    float scale;
} lb_attention_f32_params;

typedef void lb_attention_f32_fn(const lb_attention_f32_params *p, const float *q, const float *k, const float *v, const void *mask,
                                 float *out, void *scratch, int32_t begin, int32_t end);

/* ---- matmul_f32: out[i][j] = sum over k of a[i][k] * b[k][j], for each of shape[0] x shape[1] x shape[2] pairs of matrices ------------
 * a is (m, k) with neighbours in a row, rows a_row elements apart; b[k][j] stands at k * b_row + j * b_column; matrices are *_batch
 * elements apart, 0 where one is used again. out is dense. The error is that of linear_f32. Item: `block` rows, shape[0] * shape[1] *
 * shape[2] * ceil(m / block) of them. scratch, aligned to 64: 4 * k bytes for each column of a tile. */
typedef struct {
    int32_t shape[3];
    int32_t a_batch[3];
    int32_t b_batch[3];
    int32_t m;
    int32_t k;
    int32_t n;
    int32_t a_row;
    int32_t b_row;
    int32_t b_column;
    int32_t block; /* >= 1 */
} lb_matmul_f32_params;

typedef void lb_matmul_f32_fn(const lb_matmul_f32_params *p, const float *a, const float *b, float *out, void *scratch, int32_t begin,
                              int32_t end);

#endif
