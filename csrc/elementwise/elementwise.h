/* One element at a time. lb.h has the rules of every contract. */
#ifndef LB_ELEMENTWISE_H
#define LB_ELEMENTWISE_H

#include "base/fields.h"
#include "base/numerics.h"

#include <stdint.h>

/* ---- elementwise. Item: an element. ---------------------------------------------------------------------------------------------------
 * Binary operations broadcast: out is dense of `shape`, an operand has `*_stride` 0 along axes that it repeats. Axis 3 is the last;
 * along it a stride is 0 or 1. In place where the operand has the shape of out. */

/* out = clamp(rne(fl32(x - x_zero) * multiplier) + y_zero, lo, hi). In place. */
typedef struct {
    lb_f32 multiplier; /* finite, > 0 */
    int32_t x_zero;
    int32_t y_zero;
    int32_t lo;
    int32_t hi;
} lb_requantize_s8_params;

typedef void lb_requantize_s8_fn(const lb_requantize_s8_params *p, const int8_t *x, int8_t *out, int32_t begin, int32_t end);

/* out = clamp(rne((fl32(a) * a_multiplier + offset) + fl32(b) * b_multiplier), lo, hi), each operation rounded. */
typedef struct {
    LB_BROADCAST_FIELDS;
    lb_f32 a_multiplier; /* finite, as the next; a difference has one that is negative */
    lb_f32 b_multiplier;
    lb_f32 offset; /* finite: the zero points of all three */
    int32_t lo;
    int32_t hi;
} lb_add_s8_params;

typedef void lb_add_s8_fn(const lb_add_s8_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t begin, int32_t end);

/* out = clamp(rne(fl32((a - a_zero) * (b - b_zero)) * multiplier + y_zero), lo, hi), each operation rounded. */
typedef struct {
    LB_BROADCAST_FIELDS;
    lb_f32 multiplier; /* finite, > 0 */
    int32_t a_zero;
    int32_t b_zero;
    int32_t y_zero;
    int32_t lo;
    int32_t hi;
} lb_mul_s8_params;

typedef void lb_mul_s8_fn(const lb_mul_s8_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t begin, int32_t end);

/* out = the larger of a and b, of equal scales and zero points; min_s8: the smaller. */
typedef struct {
    LB_BROADCAST_FIELDS;
} lb_max_s8_params;

typedef void lb_max_s8_fn(const lb_max_s8_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t begin, int32_t end);

typedef lb_max_s8_params lb_min_s8_params;

typedef void lb_min_s8_fn(const lb_min_s8_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t begin, int32_t end);

/* out = table[x + 128], 256 entries. In place. */
typedef struct {
    int32_t unused; /* 0: a struct has at least one field */
} lb_table_s8_params;

typedef void lb_table_s8_fn(const lb_table_s8_params *p, const int8_t *x, const int8_t *table, int8_t *out, int32_t begin, int32_t end);

/* The same with entries of int16. */
typedef lb_table_s8_params lb_table_s8_s16_params;

typedef void lb_table_s8_s16_fn(const lb_table_s8_s16_params *p, const int8_t *x, const int16_t *table, int16_t *out, int32_t begin,
                                int32_t end);

/* The same with entries of float. */
typedef lb_table_s8_params lb_table_s8_f32_params;

typedef void lb_table_s8_f32_fn(const lb_table_s8_f32_params *p, const int8_t *x, const lb_f32 *table, lb_f32 *out, int32_t begin,
                                int32_t end);

/* out = table[c][x]: unsigned bytes, 256 entries of out_bytes (1, 2 or 4) for each of the channels. Element i is of channel
 * (i / inner) % channels. Item: an element. */
typedef struct {
    int32_t channels;
    int32_t inner;
    int32_t out_bytes;
} lb_channel_table_params;

typedef void lb_channel_table_fn(const lb_channel_table_params *p, const uint8_t *x, const void *table, void *out, int32_t begin,
                                 int32_t end);

#endif
