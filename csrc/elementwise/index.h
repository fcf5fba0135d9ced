/* Indices, masks and other integers that run through float graphs. lb.h has the rules of every contract. Exact. */
#ifndef LB_INDEX_H
#define LB_INDEX_H

#include "base/fields.h"
#include "base/numerics.h"

#include <stdint.h>

/* ---- cast: out = x as another type. Kinds: 0 float, 1 int64_t, 2 int32_t, 3 int16_t, 4 int8_t, 5 uint8_t, 6 bool (a byte of 0 or 1).
 * ------ Floats to integers drop the fraction (what does not fit 64 bits, and NaN, gives the least int64); integers to narrower ones drop
 * the upper bits; anything but 0 is true. Item: an element. */
typedef struct {
    int32_t from;
    int32_t to;
} lb_cast_params;

typedef void lb_cast_fn(const lb_cast_params *p, const void *x, void *out, int32_t begin, int32_t end);

/* ---- fill_b32, fill_b64: as fill_b8, of elements of 4 and 8 bytes. Item: an element. */
typedef struct {
    uint32_t value;
} lb_fill_b32_params;

typedef void lb_fill_b32_fn(const lb_fill_b32_params *p, uint32_t *out, int32_t begin, int32_t end);

typedef struct {
    uint64_t value;
} lb_fill_b64_params;

typedef void lb_fill_b64_fn(const lb_fill_b64_params *p, uint64_t *out, int32_t begin, int32_t end);

/* ---- operations on two tensors that broadcast as add_s8. Item: an element.
 * --------------------------------------------------------------- compare_*: out is 1 or 0. kind 0: a == b, 1: a != b, 2: a < b, 3: a <= b,
 * 4: a > b, 5: a >= b. arithmetic_*: kind 0: a + b, 1: a - b, 2: a * b (all modulo the width), 3: the larger, 4: the lesser. In place.
 * logic_b8: bytes of 0 or 1, kind 0: and, 1: or, 2: exclusive or. In place. */
typedef struct {
    LB_BROADCAST_FIELDS;
    int32_t kind;
} lb_compare_f32_params;

typedef lb_compare_f32_params lb_compare_s64_params;
typedef lb_compare_f32_params lb_compare_s32_params;
typedef lb_compare_f32_params lb_arithmetic_s64_params;
typedef lb_compare_f32_params lb_arithmetic_s32_params;
typedef lb_compare_f32_params lb_logic_b8_params;

typedef void lb_compare_f32_fn(const lb_compare_f32_params *p, const lb_f32 *a, const lb_f32 *b, uint8_t *out, int32_t begin, int32_t end);
typedef void lb_compare_s64_fn(const lb_compare_s64_params *p, const int64_t *a, const int64_t *b, uint8_t *out, int32_t begin,
                               int32_t end);
typedef void lb_compare_s32_fn(const lb_compare_s32_params *p, const int32_t *a, const int32_t *b, uint8_t *out, int32_t begin,
                               int32_t end);
typedef void lb_arithmetic_s64_fn(const lb_arithmetic_s64_params *p, const int64_t *a, const int64_t *b, int64_t *out, int32_t begin,
                                  int32_t end);
typedef void lb_arithmetic_s32_fn(const lb_arithmetic_s32_params *p, const int32_t *a, const int32_t *b, int32_t *out, int32_t begin,
                                  int32_t end);
typedef void lb_logic_b8_fn(const lb_logic_b8_params *p, const uint8_t *a, const uint8_t *b, uint8_t *out, int32_t begin, int32_t end);

/* ---- not_b8: out = 1 - x, of bytes of 0 or 1. In place. Item: an element.
 * ----------------------------------------------------------------- */
typedef struct {
    int32_t unused; /* 0 */
} lb_not_b8_params;

typedef void lb_not_b8_fn(const lb_not_b8_params *p, const uint8_t *x, uint8_t *out, int32_t begin, int32_t end);

/* ---- where_b32, where_b64: out = mask ? a : b, of elements of 4 or 8 bytes; the mask has bytes of 0 or 1. Broadcasting as add_s8, over
 * four axes and along each of them 0 or any stride. Item: an element. */
typedef struct {
    int32_t shape[4];
    int32_t mask_stride[4];
    int32_t a_stride[4];
    int32_t b_stride[4];
} lb_where_b32_params;

typedef lb_where_b32_params lb_where_b64_params;

typedef void lb_where_b32_fn(const lb_where_b32_params *p, const uint8_t *mask, const uint32_t *a, const uint32_t *b, uint32_t *out,
                             int32_t begin, int32_t end);
typedef void lb_where_b64_fn(const lb_where_b64_params *p, const uint8_t *mask, const uint64_t *a, const uint64_t *b, uint64_t *out,
                             int32_t begin, int32_t end);

#endif
