/* Floats one element at a time. lb.h has the rules of every contract, float_product.h those of floats. */
#ifndef LB_FLOAT_ELEMENTWISE_H
#define LB_FLOAT_ELEMENTWISE_H

#include "base/fields.h"

#include <stdint.h>

/* ---- add_f32 ... min_f32: out = clamp(a ? b, lo, hi), one IEEE operation and so exact. Item: an element. ------------------------------
 * Broadcasting is that of add_s8: out is dense of `shape`, an operand has `*_stride` 0 along axes that it repeats; along the last axis a
 * stride is 0 or 1. In place where the operand has the shape of out. max_f32 and min_f32 give NaN where an operand is NaN. prelu_f32: a >=
 * 0 ? a : a * b. */
typedef struct {
    LB_BROADCAST_FIELDS;
    float lo;
    float hi;
} lb_add_f32_params;

typedef lb_add_f32_params lb_sub_f32_params;
typedef lb_add_f32_params lb_mul_f32_params;
typedef lb_add_f32_params lb_div_f32_params;
typedef lb_add_f32_params lb_max_f32_params;
typedef lb_add_f32_params lb_min_f32_params;
typedef lb_add_f32_params lb_prelu_f32_params;

typedef void lb_add_f32_fn(const lb_add_f32_params *p, const float *a, const float *b, float *out, int32_t begin, int32_t end);
typedef void lb_sub_f32_fn(const lb_sub_f32_params *p, const float *a, const float *b, float *out, int32_t begin, int32_t end);
typedef void lb_mul_f32_fn(const lb_mul_f32_params *p, const float *a, const float *b, float *out, int32_t begin, int32_t end);
typedef void lb_div_f32_fn(const lb_div_f32_params *p, const float *a, const float *b, float *out, int32_t begin, int32_t end);
typedef void lb_max_f32_fn(const lb_max_f32_params *p, const float *a, const float *b, float *out, int32_t begin, int32_t end);
typedef void lb_min_f32_fn(const lb_min_f32_params *p, const float *a, const float *b, float *out, int32_t begin, int32_t end);
typedef void lb_prelu_f32_fn(const lb_prelu_f32_params *p, const float *a, const float *b, float *out, int32_t begin, int32_t end);

/* ---- clip_f32: out = clamp(x, lo, hi). Exact, in place. Item: an element. -------------------------------------------------------------
 */
typedef struct {
    float lo;
    float hi;
} lb_clip_f32_params;

typedef void lb_clip_f32_fn(const lb_clip_f32_params *p, const float *x, float *out, int32_t begin, int32_t end);

#endif
