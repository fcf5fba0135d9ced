/* Elementwise operations and sums of integers of any mixture of widths. lb.h has the rules of every contract. */
#ifndef LB_MIXED_H
#define LB_MIXED_H

#include "base/fields.h"
#include "base/numerics.h"

#include <stdint.h>

/* ---- mul_int, div_int ----------------------------------------------------------------------------------------------------------
 * v = fl32((a - a_zero) * (b - b_zero)) * multiplier + y_zero; out = v, a float whose y_zero is 0, or clamp(rne(v)).
 * v = (fl32(a - a_zero) / fl32(b - b_zero)) * multiplier; out = v, or clamp(rne(v) + y_zero), where NaN counts as 0.
 * Operands broadcast as those of add_s8. Item: an element. */
typedef struct {
    LB_BROADCAST_FIELDS;
    lb_f32 multiplier; /* finite, > 0 */
    int32_t a_bytes;   /* of an element: 1 or 2 */
    int32_t b_bytes;
    int32_t out_bytes; /* 1, 2, or 4 for floats */
    int32_t a_zero;
    int32_t b_zero;
    int32_t y_zero;
    int32_t lo;
    int32_t hi;
} lb_mul_int_params;

typedef void lb_mul_int_fn(const lb_mul_int_params *p, const void *a, const void *b, void *out, int32_t begin, int32_t end);

typedef lb_mul_int_params lb_div_int_params;

typedef void lb_div_int_fn(const lb_div_int_params *p, const void *a, const void *b, void *out, int32_t begin, int32_t end);

/* ---- add_int: (fl32(a) * a_multiplier + offset) + fl32(b) * b_multiplier, each operation rounded: a float, or clamp(rne(...), lo, hi).
 * The offset holds the zero points. Operands broadcast as those of add_s8. Item: an element. */
typedef struct {
    LB_BROADCAST_FIELDS;
    lb_f32 a_multiplier; /* finite, as the other one and the offset */
    lb_f32 b_multiplier;
    lb_f32 offset;
    int32_t a_bytes; /* of an element: 1 or 2 */
    int32_t b_bytes;
    int32_t out_bytes; /* 1, 2, or 4 for floats */
    int32_t lo;
    int32_t hi;
} lb_add_int_params;

typedef void lb_add_int_fn(const lb_add_int_params *p, const void *a, const void *b, void *out, int32_t begin, int32_t end);

/* ---- sum_int: over the middle axis of x (outer, n, inner) --------------------------------------------------------------------
 * out = fl32(sum of (x - x_zero)) * multiplier: a float, or clamp(rne(...) + y_zero), where NaN counts as 0. Sums of 64 bits.
 * Item: one of outer. scratch: 8 * inner bytes. */
typedef struct {
    int32_t n;
    int32_t inner;
    LB_WIDTH_FIELDS;
    LB_LIMIT_FIELDS;
    lb_f32 multiplier;
} lb_sum_int_params;

typedef void lb_sum_int_fn(const lb_sum_int_params *p, const void *x, void *out, int64_t *scratch, int32_t begin, int32_t end);

/* ---- table_s16: out = table[x + 32768], 65,536 entries of 1 or 2 bytes. Item: an element. */
typedef struct {
    int32_t out_bytes; /* 1 or 2 */
} lb_table_s16_params;

typedef void lb_table_s16_fn(const lb_table_s16_params *p, const int16_t *x, const void *table, void *out, int32_t begin, int32_t end);

#endif
