/* 16-bit activations. lb.h has the rules of every contract. */
#ifndef LB_WIDE_H
#define LB_WIDE_H

#include "base/numerics.h"

#include <stdint.h>

#include "conv/conv.h"
#include "elementwise/elementwise.h"
#include "linear/linear.h"
#include "pool/pool.h"
#include "quantize/quantize.h"

/* ---- 16-bit activations: the same contracts, with int16_t where the name says s16
 * Zero points, lo and hi are then in the range of int16. Elements of 2 bytes are
 * copied by copy_b16. */
typedef struct {
    lb_f32 scale;       /* finite, > 0 */
    int32_t zero_point; /* lo ... hi */
    int32_t lo;         /* -32768 ... hi */
    int32_t hi;         /* lo ... 32767 */
} lb_quantize_f32_s16_params;

typedef void lb_quantize_f32_s16_fn(const lb_quantize_f32_s16_params *p, const lb_f32 *x, int16_t *out, int32_t begin, int32_t end);

typedef lb_dequantize_s8_f32_params lb_dequantize_s16_f32_params;

typedef void lb_dequantize_s16_f32_fn(const lb_dequantize_s16_f32_params *p, const int16_t *x, lb_f32 *out, int32_t begin, int32_t end);

typedef lb_conv_s8_params lb_conv_s8_s16_params;

typedef void lb_conv_s8_s16_fn(const lb_conv_s8_s16_params *p, const int8_t *x, const void *w, const int32_t *bias,
                               const lb_f32 *multiplier, int16_t *out, void *scratch, int32_t begin, int32_t end);

typedef lb_linear_s8_params lb_linear_s8_s16_params;

typedef void lb_linear_s8_s16_fn(const lb_linear_s8_s16_params *p, const int8_t *x, const void *w, const int32_t *bias,
                                 const lb_f32 *multiplier, int16_t *out, void *scratch, int32_t begin, int32_t end);

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

typedef lb_avg_pool_s8_params lb_avg_pool_s16_f32_params; /* kernel_h * kernel_w < 2^15 */

typedef void lb_avg_pool_s16_f32_fn(const lb_avg_pool_s16_f32_params *p, const int16_t *x, lb_f32 *out, void *scratch, int32_t begin,
                                    int32_t end);

typedef lb_copy_b8_params lb_copy_b16_params;

typedef void lb_copy_b16_fn(const lb_copy_b16_params *p, const uint16_t *x, uint16_t *out, int32_t begin, int32_t end);

/* linear_s16_*: weights (n, k) of int16_t for `ref`, as dot2_simd.h says for x86; sums and bias of 64 bits, below 2^52. */
typedef lb_linear_s8_params lb_linear_s16_f32_params;
typedef lb_linear_s8_params lb_linear_s16_s8_params;
typedef lb_linear_s8_params lb_linear_s16_params;

typedef void lb_linear_s16_f32_fn(const lb_linear_s16_f32_params *p, const int16_t *x, const void *w, const int64_t *bias,
                                  const lb_f32 *multiplier, lb_f32 *out, int32_t begin, int32_t end);
typedef void lb_linear_s16_s8_fn(const lb_linear_s16_s8_params *p, const int16_t *x, const void *w, const int64_t *bias,
                                 const lb_f32 *multiplier, int8_t *out, int32_t begin, int32_t end);
typedef void lb_linear_s16_fn(const lb_linear_s16_params *p, const int16_t *x, const void *w, const int64_t *bias, const lb_f32 *multiplier,
                              int16_t *out, int32_t begin, int32_t end);

#endif
