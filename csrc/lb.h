/* The contract of lowbit's kernels: for each operation one params struct and one function type. Layout and legal range of
 * every field are written here and nowhere else.
 *
 *   real = scale * (q - zero_point), everywhere.
 *
 * A kernel is a pure function: arguments are params, inputs..., output, scratch; the caller owns all memory; a kernel keeps no
 * state, allocates nothing and reads and writes exactly the elements that its contract names. Pointers need the alignment of
 * their element only, unless the contract asks for more. Inputs and outputs do not overlap unless the contract says "in place".
 *
 * Every implementation of a contract gives the same bits (lb_numerics.h). Different numerics is a different name.
 *
 * Work that can be split ends its arguments with `int32_t begin, int32_t end`: the kernel does the items begin ... end - 1 (0 <= begin
 * <= end <= items) and nothing else. Each contract says what an item is and how many there are. Items are independent of each other,
 * so threads share them out; a single caller takes all at once. Concurrent calls need a scratch each.
 *
 * Images stand with their channels last: (batch, height, width, channels), dense unless a stride is named.
 *
 * The build reads this file (tools/gen_kernels.py) and derives the kernel table, the struct layouts that Python packs by name,
 * and the uniform calls. So that it can: params hold fixed-width scalars or arrays of them, one field a line, and arguments are
 * pointers, then begin and end. Sizes are int32_t: a tensor has fewer than 2^31 elements.
 */
#ifndef LB_H
#define LB_H

#include <stdint.h>

/* ---- quantize_f32_s8: out[i] = lb_quantize(x[i]), per tensor. NaN gives the zero point, infinities saturate. Item: an element. */
typedef struct {
    float scale;        /* finite, > 0 */
    int32_t zero_point; /* lo ... hi */
    int32_t lo;         /* -128 ... hi; narrower than int8 for int4 held in bytes, or for a symmetric range */
    int32_t hi;         /* lo ... 127 */
} lb_quantize_f32_s8_params;

typedef void lb_quantize_f32_s8_fn(const lb_quantize_f32_s8_params *p, const float *x, int8_t *out, int32_t begin, int32_t end);

/* ---- dequantize_s8_f32: out[i] = scale * (x[i] - zero_point), per tensor, one fp32 multiply. Item: an element. */
typedef struct {
    float scale;        /* finite, > 0 */
    int32_t zero_point; /* -128 ... 127 */
} lb_dequantize_s8_f32_params;

typedef void lb_dequantize_s8_f32_fn(const lb_dequantize_s8_f32_params *p, const int8_t *x, float *out, int32_t begin, int32_t end);

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
    int64_t a_stride;   /* elements from row to row */
    int64_t out_stride; /* elements from row to row, >= n */
    int32_t m;          /* >= 0 */
    int32_t k;          /* >= 0 */
    int32_t n;          /* >= 0 */
    int32_t a_unsigned; /* 0 or 1 */
} lb_gemm_s8_s32_params;

typedef void lb_gemm_s8_s32_fn(const lb_gemm_s8_s32_params *p, const int8_t *a, const int32_t *a_zero_points, const void *packed,
                               int32_t *out, void *scratch);

/* out[i][j] = start, then for each segment in ascending order out = out + fl32(acc[s][i][j]) * (a_scales[s][i] * b_scales[s][j]),
 * every operation rounded to fp32. start = -0.0 leaves a single product as it is; +0.0 is where a sum begins. */
typedef struct {
    int64_t a_stride;   /* elements from row to row */
    int64_t out_stride; /* elements from row to row, >= n */
    int32_t m;          /* >= 0 */
    int32_t k;          /* >= 0 */
    int32_t n;          /* >= 0 */
    int32_t segment;    /* as b was packed */
    int32_t a_unsigned; /* 0 or 1 */
    float start;        /* 0.0 or -0.0 */
} lb_gemm_s8_f32_params;

typedef void lb_gemm_s8_f32_fn(const lb_gemm_s8_f32_params *p, const int8_t *a, const int32_t *a_zero_points, const float *a_scales,
                               const void *packed, const float *b_scales, float *out, void *scratch);

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
 * a is m rows, b is n rows (the columns of the right side), each of `words` words; bits behind the k-th are equal in both, zero
 * for instance. out[i][j] = k - 2 * (number of bits in which a[i] and b[j] differ). */
typedef struct {
    int64_t out_stride; /* elements from row to row, >= n */
    int32_t m;          /* >= 0 */
    int32_t k;          /* 0 ... 64 * words */
    int32_t n;          /* >= 0 */
    int32_t words;      /* >= 0 */
} lb_gemm_b1_s32_params;

typedef void lb_gemm_b1_s32_fn(const lb_gemm_b1_s32_params *p, const uint64_t *a, const uint64_t *b, int32_t *out);

/* ---- conv_s8, conv_s8_f32: convolution of images -----------------------------------------------------------------------------------
 *
 *   acc = bias[o] + sum over kernel and channels of the group of (x - x_zero) * w[o]      padding adds nothing
 *   conv_s8:     out = clamp(rne(fl32(acc) * multiplier[o]) + y_zero, lo, hi)
 *   conv_s8_f32: out = fl32(acc) * multiplier[o]
 *
 * The caller proves that no acc leaves int32; kernels may wrap on the way. Weights are int8, plain (out_c, kernel_h, kernel_w,
 * in_c / groups) for `ref`; for others they are packed by gemm_s8_pack of the same isa, once for each group, one behind the other:
 * k = kernel_h * kernel_w * in_c / groups rows in that order, n = out_c / groups columns, one segment, no zero points.
 *
 * Item: `block` pixels of the output, which are counted through the batch: ceil(batch * out_h * out_w / block) of them.
 * scratch, aligned to 64: bytes[1] of gemm_s8_sizes of the same isa for m = block and that k, and k more, rounded up to 64. */
typedef struct {
    int32_t batch;
    int32_t in_h;
    int32_t in_w;
    int32_t in_c;
    int32_t out_h;
    int32_t out_w;
    int32_t out_c;
    int32_t kernel_h; /* >= 1, as kernel_w, strides, dilations and groups */
    int32_t kernel_w;
    int32_t stride_h;
    int32_t stride_w;
    int32_t pad_h; /* rows above the first; what is needed below follows from out_h */
    int32_t pad_w;
    int32_t dilation_h;
    int32_t dilation_w;
    int32_t groups;     /* divides in_c and out_c */
    int32_t block;      /* >= 1 */
    int32_t out_stride; /* elements from pixel to pixel, >= out_c */
    int32_t x_zero;     /* -128 ... 127 */
    int32_t y_zero;     /* lo ... hi */
    int32_t lo;         /* -128 ... hi */
    int32_t hi;         /* lo ... 127 */
} lb_conv_s8_params;

/* multiplier: out_c, finite, >= 0. */
typedef void lb_conv_s8_fn(const lb_conv_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier,
                           int8_t *out, void *scratch, int32_t begin, int32_t end);

typedef lb_conv_s8_params lb_conv_s8_f32_params; /* y_zero, lo and hi are not read */

typedef void lb_conv_s8_f32_fn(const lb_conv_s8_f32_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier,
                               float *out, void *scratch, int32_t begin, int32_t end);

/* ---- conv3x3_s8: conv_s8 for kernels of 3x3 with strides, dilations and groups of 1
 * Item: `block` tiles of 4x4 pixels, which are counted through the batch: ceil(batch
 * * ceil(out_h / 4) * ceil(out_w / 4) / block). The caller proves
 * |acc - bias| < 2^25 for every x; bias is free as in conv_s8.
 *
 * Weights are plain (out_c, 3, 3, in_c) for `ref`. For others they are Winograd's F(4x4, 3x3) in integers: u = G w G' with the rows
 * (1 0 0) (-1 -1 -1) (-1 1 -1) (1 2 4) (1 -2 4) (0 0 1) of G, of int16, as (ceil(out_c / 16), 36, c / 2, 16, 2), where c is in_c rounded
 * up to 16, and the last two axes are output channel and input channel; what does not exist is 0. Aligned to 64.
 * scratch, aligned to 64: 72 * block * c + 36 * 64 * block bytes. */
typedef struct {
    int32_t batch;
    int32_t in_h;
    int32_t in_w;
    int32_t in_c;
    int32_t out_h;
    int32_t out_w;
    int32_t out_c;
    int32_t pad_h;
    int32_t pad_w;
    int32_t block;      /* >= 1 */
    int32_t out_stride; /* elements from pixel to pixel, >= out_c */
    int32_t x_zero;
    int32_t y_zero;
    int32_t lo;
    int32_t hi;
} lb_conv3x3_s8_params;

typedef void lb_conv3x3_s8_fn(const lb_conv3x3_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier,
                              int8_t *out, void *scratch, int32_t begin, int32_t end);

/* ---- dwconv_s8: convolution of each channel by itself, as conv_s8 with groups = in_c = out_c = channels. ------------------------------
 * Weights are (kernel_h, kernel_w, channels) for every isa. Item: a row of the output, batch * out_h of them.
 * scratch, aligned to 64: 8 * (kernel_h + 1) * (in_w + kernel_w * dilation_w + stride_w + pad_w) * 16 + 128 * (kernel_h + 1) * kernel_w
 * bytes. */
typedef struct {
    int32_t batch;
    int32_t in_h;
    int32_t in_w;
    int32_t channels;
    int32_t out_h;
    int32_t out_w;
    int32_t kernel_h;
    int32_t kernel_w;
    int32_t stride_h;
    int32_t stride_w;
    int32_t pad_h;
    int32_t pad_w;
    int32_t dilation_h;
    int32_t dilation_w;
    int32_t out_stride; /* elements from pixel to pixel, >= channels */
    int32_t x_zero;
    int32_t y_zero;
    int32_t lo;
    int32_t hi;
} lb_dwconv_s8_params;

typedef void lb_dwconv_s8_fn(const lb_dwconv_s8_params *p, const int8_t *x, const int8_t *w, const int32_t *bias, const float *multiplier,
                             int8_t *out, void *scratch, int32_t begin, int32_t end);

/* ---- linear_s8, linear_s8_f32: rows times weights, as a 1x1 conv_s8 ---------------------------------------------------------------------
 * x is rows x k. Weights are (n, k) for `ref`; for others packed as those of conv_s8.
 * Item: a block of block_rows x block_columns results. There are ceil(rows / block_rows) * ceil(n / block_columns), those of one
 * block of rows one after the other. scratch, aligned to 64: bytes[1] of gemm_s8_sizes of the same isa for m = block_rows. */
typedef struct {
    int32_t rows;
    int32_t k;
    int32_t n;
    int32_t block_rows;    /* >= 1 */
    int32_t block_columns; /* >= 1, a multiple of 16 */
    int32_t out_stride;    /* elements from row to row, >= n */
    int32_t x_zero;
    int32_t y_zero;
    int32_t lo;
    int32_t hi;
} lb_linear_s8_params;

typedef void lb_linear_s8_fn(const lb_linear_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier,
                             int8_t *out, void *scratch, int32_t begin, int32_t end);

typedef lb_linear_s8_params lb_linear_s8_f32_params; /* y_zero, lo and hi are not read */

typedef void lb_linear_s8_f32_fn(const lb_linear_s8_f32_params *p, const int8_t *x, const void *w, const int32_t *bias,
                                 const float *multiplier, float *out, void *scratch, int32_t begin, int32_t end);

/* ---- elementwise. Item: an element. ---------------------------------------------------------------------------------------------------
 * Binary operations broadcast: out is dense of `shape`, an operand has `*_stride` 0 along axes that it repeats. Axis 3 is the last;
 * along it a stride is 0 or 1. In place where the operand has the shape of out. */

/* out = clamp(rne(fl32(x - x_zero) * multiplier) + y_zero, lo, hi). In place. */
typedef struct {
    float multiplier; /* finite, > 0 */
    int32_t x_zero;
    int32_t y_zero;
    int32_t lo;
    int32_t hi;
} lb_requantize_s8_params;

typedef void lb_requantize_s8_fn(const lb_requantize_s8_params *p, const int8_t *x, int8_t *out, int32_t begin, int32_t end);

/* out = clamp(rne(fl32(a - a_zero) * a_multiplier + fl32(b - b_zero) * b_multiplier) + y_zero, lo, hi), each operation rounded. */
typedef struct {
    int32_t shape[4];
    int32_t a_stride[4];
    int32_t b_stride[4];
    float a_multiplier; /* finite, as the next; a difference has one that is negative */
    float b_multiplier;
    int32_t a_zero;
    int32_t b_zero;
    int32_t y_zero;
    int32_t lo;
    int32_t hi;
} lb_add_s8_params;

typedef void lb_add_s8_fn(const lb_add_s8_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t begin, int32_t end);

/* out = clamp(rne(fl32((a - a_zero) * (b - b_zero)) * multiplier) + y_zero, lo, hi). */
typedef struct {
    int32_t shape[4];
    int32_t a_stride[4];
    int32_t b_stride[4];
    float multiplier; /* finite, > 0 */
    int32_t a_zero;
    int32_t b_zero;
    int32_t y_zero;
    int32_t lo;
    int32_t hi;
} lb_mul_s8_params;

typedef void lb_mul_s8_fn(const lb_mul_s8_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t begin, int32_t end);

/* out = table[x + 128], 256 entries. In place. */
typedef struct {
    int32_t unused; /* 0: a struct has at least one field */
} lb_table_s8_params;

typedef void lb_table_s8_fn(const lb_table_s8_params *p, const int8_t *x, const int8_t *table, int8_t *out, int32_t begin, int32_t end);

/* ---- pools. Item: a row of the output, batch * out_h of them.
 * max_pool_s8: the largest of the window's elements inside the
 * image, or -128 where there are none. avg_pool_s8: clamp(rne(fl32(sum of (x - x_zero)) * (multiplier / fl32(count))) + y_zero, lo, hi).
 * count is how many of the window's elements are inside the image or, with count_pad_h and so on, inside its padding: rows -count_h0 ...
 * in_h + count_h1 - 1, columns alike. A count of 0 gives y_zero. */
typedef struct {
    int32_t batch;
    int32_t in_h;
    int32_t in_w;
    int32_t channels;
    int32_t out_h;
    int32_t out_w;
    int32_t kernel_h;
    int32_t kernel_w;
    int32_t stride_h;
    int32_t stride_w;
    int32_t pad_h;
    int32_t pad_w;
    int32_t dilation_h;
    int32_t dilation_w;
    int32_t out_stride; /* elements from pixel to pixel, >= channels */
} lb_max_pool_s8_params;

typedef void lb_max_pool_s8_fn(const lb_max_pool_s8_params *p, const int8_t *x, int8_t *out, int32_t begin, int32_t end);

typedef struct {
    int32_t batch;
    int32_t in_h;
    int32_t in_w;
    int32_t channels;
    int32_t out_h;
    int32_t out_w;
    int32_t kernel_h; /* kernel_h * kernel_w < 2^23 */
    int32_t kernel_w;
    int32_t stride_h;
    int32_t stride_w;
    int32_t pad_h;
    int32_t pad_w;
    int32_t dilation_h;
    int32_t dilation_w;
    int32_t count_h0; /* 0: padding does not count */
    int32_t count_h1;
    int32_t count_w0;
    int32_t count_w1;
    int32_t out_stride; /* elements from pixel to pixel, >= channels */
    float multiplier;   /* finite, > 0 */
    int32_t x_zero;
    int32_t y_zero;
    int32_t lo;
    int32_t hi;
} lb_avg_pool_s8_params;

/* scratch: 4 * channels bytes, aligned to 64. */
typedef void lb_avg_pool_s8_fn(const lb_avg_pool_s8_params *p, const int8_t *x, int8_t *out, void *scratch, int32_t begin, int32_t end);

/* ---- copy_b8, copy_b32: out[i] = x[i] for six indices, each with its own strides ----------------------------------------------
 * Elements of 1 or 4 bytes of any kind. Transposes, slices, parts of a concat, repetitions. Item: an index of axis 0. */
typedef struct {
    int32_t shape[6];
    int32_t x_stride[6];   /* elements, of any sign */
    int32_t out_stride[6]; /* elements, >= 0 */
    int32_t x_offset;      /* element of x where the copy starts */
    int32_t out_offset;
} lb_copy_b8_params;

typedef void lb_copy_b8_fn(const lb_copy_b8_params *p, const uint8_t *x, uint8_t *out, int32_t begin, int32_t end);

typedef lb_copy_b8_params lb_copy_b32_params;

typedef void lb_copy_b32_fn(const lb_copy_b32_params *p, const uint32_t *x, uint32_t *out, int32_t begin, int32_t end);

/* ---- fill_b8: out[i] = value. Item: an element. -----------------------------------------------------------------------------------------
 */
typedef struct {
    int32_t value; /* 0 ... 255 */
} lb_fill_b8_params;

typedef void lb_fill_b8_fn(const lb_fill_b8_params *p, uint8_t *out, int32_t begin, int32_t end);

/* ---- 16-bit activations: the same contracts, with int16_t where the name says s16
 * Zero points, lo and hi are then in the range of int16. Elements of 2 bytes are
 * copied by copy_b16. */
typedef struct {
    float scale;        /* finite, > 0 */
    int32_t zero_point; /* lo ... hi */
    int32_t lo;         /* -32768 ... hi */
    int32_t hi;         /* lo ... 32767 */
} lb_quantize_f32_s16_params;

typedef void lb_quantize_f32_s16_fn(const lb_quantize_f32_s16_params *p, const float *x, int16_t *out, int32_t begin, int32_t end);

typedef lb_dequantize_s8_f32_params lb_dequantize_s16_f32_params;

typedef void lb_dequantize_s16_f32_fn(const lb_dequantize_s16_f32_params *p, const int16_t *x, float *out, int32_t begin, int32_t end);

typedef lb_conv_s8_params lb_conv_s8_s16_params;

typedef void lb_conv_s8_s16_fn(const lb_conv_s8_s16_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier,
                               int16_t *out, void *scratch, int32_t begin, int32_t end);

typedef lb_linear_s8_params lb_linear_s8_s16_params;

typedef void lb_linear_s8_s16_fn(const lb_linear_s8_s16_params *p, const int8_t *x, const void *w, const int32_t *bias,
                                 const float *multiplier, int16_t *out, void *scratch, int32_t begin, int32_t end);

typedef lb_requantize_s8_params lb_requantize_s8_s16_params;
typedef lb_requantize_s8_params lb_requantize_s16_s8_params;
typedef lb_requantize_s8_params lb_requantize_s16_params;

typedef void lb_requantize_s8_s16_fn(const lb_requantize_s8_s16_params *p, const int8_t *x, int16_t *out, int32_t begin, int32_t end);
typedef void lb_requantize_s16_s8_fn(const lb_requantize_s16_s8_params *p, const int16_t *x, int8_t *out, int32_t begin, int32_t end);
typedef void lb_requantize_s16_fn(const lb_requantize_s16_params *p, const int16_t *x, int16_t *out, int32_t begin, int32_t end);

typedef lb_add_s8_params lb_add_s16_params;

typedef void lb_add_s16_fn(const lb_add_s16_params *p, const int16_t *a, const int16_t *b, int16_t *out, int32_t begin, int32_t end);

typedef lb_max_pool_s8_params lb_max_pool_s16_params;

typedef void lb_max_pool_s16_fn(const lb_max_pool_s16_params *p, const int16_t *x, int16_t *out, int32_t begin, int32_t end);

typedef lb_avg_pool_s8_params lb_avg_pool_s16_params; /* kernel_h * kernel_w < 2^15 */

typedef void lb_avg_pool_s16_fn(const lb_avg_pool_s16_params *p, const int16_t *x, int16_t *out, void *scratch, int32_t begin, int32_t end);

typedef lb_copy_b8_params lb_copy_b16_params;

typedef void lb_copy_b16_fn(const lb_copy_b16_params *p, const uint16_t *x, uint16_t *out, int32_t begin, int32_t end);

/* linear_s16_*: weights (n, k) of int16_t, sums and bias of 64 bits, exact for every k. block_columns need no multiple of 16. */
typedef lb_linear_s8_params lb_linear_s16_f32_params;
typedef lb_linear_s8_params lb_linear_s16_s8_params;
typedef lb_linear_s8_params lb_linear_s16_params;

typedef void lb_linear_s16_f32_fn(const lb_linear_s16_f32_params *p, const int16_t *x, const int16_t *w, const int64_t *bias,
                                  const float *multiplier, float *out, int32_t begin, int32_t end);
typedef void lb_linear_s16_s8_fn(const lb_linear_s16_s8_params *p, const int16_t *x, const int16_t *w, const int64_t *bias,
                                 const float *multiplier, int8_t *out, int32_t begin, int32_t end);
typedef void lb_linear_s16_fn(const lb_linear_s16_params *p, const int16_t *x, const int16_t *w, const int64_t *bias,
                              const float *multiplier, int16_t *out, int32_t begin, int32_t end);

#endif
