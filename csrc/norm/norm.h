/* Norms of integers (docs/arithmetic.md section 5). lb.h has the rules of every contract. */
#ifndef LB_NORM_H
#define LB_NORM_H

#include "base/fields.h"
#include "base/numerics.h"

#include <stdint.h>

/* ---- norm_s8, norm_s16: layer, RMS, instance and group norms ----------------------------------------------------------------------------
 * x is sets x n. With d = x - x_zero, s1 = sum of d and s2 = sum of d * d of a set, exact:
 *
 *   mean = fl32(s1) / fl32(n), v = fl32(n * s2 - s1 * s1) / fl32(n * n)       where not centered: mean = 0, v = fl32(s2) / fl32(n)
 *   out  = ((fl32(d) - mean) * (1 / sqrt(v + eps))) * gain[c] + offset[c]     a float, or clamp(rne(...) + y_zero)
 *
 * c of element i of set s is (s % cycle) * (n / run) + i / run: gain and offset have cycle * n / run entries. Item: a set. */
typedef struct {
    int32_t n;         /* >= 1; n * max |d| < 2^31.5 */
    int32_t run;       /* >= 1, divides n: elements that share a channel. 1 for layer and RMS norms */
    int32_t cycle;     /* >= 1: sets that have channels of their own */
    int32_t centered;  /* 0 or 1 */
    int32_t shifted;   /* 0: there is no offset, it is not read */
    int32_t out_bytes; /* of an element: 1, 2, or 4 for floats */
    LB_LIMIT_FIELDS;
    lb_f32 eps; /* >= 0, finite */
} lb_norm_s8_params;

typedef void lb_norm_s8_fn(const lb_norm_s8_params *p, const int8_t *x, const lb_f32 *gain, const lb_f32 *offset, void *out, int32_t begin,
                           int32_t end);

typedef lb_norm_s8_params lb_norm_s16_params;

typedef void lb_norm_s16_fn(const lb_norm_s16_params *p, const int16_t *x, const lb_f32 *gain, const lb_f32 *offset, void *out,
                            int32_t begin, int32_t end);

/* ---- scale_shift: out = fl32(x - x_zero) * gain[c] + offset[c], batch norms that no convolution took in ---------------------
 * A float, or clamp(rne(...) + y_zero); x is (outer, channels, inner). Item: one of outer x channels. */
typedef struct {
    int32_t channels;
    int32_t inner;
    LB_WIDTH_FIELDS;
    LB_LIMIT_FIELDS;
} lb_scale_shift_params;

typedef void lb_scale_shift_fn(const lb_scale_shift_params *p, const void *x, const lb_f32 *gain, const lb_f32 *offset, void *out,
                               int32_t begin, int32_t end);

#endif
