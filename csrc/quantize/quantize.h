/* Between floats and integers. lb.h has the rules of every contract. */
#ifndef LB_QUANTIZE_H
#define LB_QUANTIZE_H

#include "base/numerics.h"

#include <stdint.h>

/* ---- quantize_f32_s8: out[i] = lb_quantize(x[i]), per tensor. NaN gives the zero point, infinities saturate. Item: an element. */
typedef struct {
    lb_f32 scale;       /* finite, > 0 */
    int32_t zero_point; /* lo ... hi */
    int32_t lo;         /* -128 ... hi; narrower than int8 for int4 held in bytes, or for a symmetric range */
    int32_t hi;         /* lo ... 127 */
} lb_quantize_f32_s8_params;

typedef void lb_quantize_f32_s8_fn(const lb_quantize_f32_s8_params *p, const lb_f32 *x, int8_t *out, int32_t begin, int32_t end);

/* ---- dequantize_s8_f32: out[i] = scale * (x[i] - zero_point), per tensor, one fp32 multiply. Item: an element. */
typedef struct {
    lb_f32 scale;       /* finite, > 0 */
    int32_t zero_point; /* -128 ... 127 */
} lb_dequantize_s8_f32_params;

typedef void lb_dequantize_s8_f32_fn(const lb_dequantize_s8_f32_params *p, const int8_t *x, lb_f32 *out, int32_t begin, int32_t end);

/* ---- cast_int_f32: out[i] = fl32(x[i]). Item: an element. */
typedef struct {
    int32_t x_bytes; /* of an element: 1, 2, 4 or 8; signed, or a bool */
} lb_cast_int_f32_params;

typedef void lb_cast_int_f32_fn(const lb_cast_int_f32_params *p, const void *x, lb_f32 *out, int32_t begin, int32_t end);

#endif
