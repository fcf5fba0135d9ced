/* Bytes moved, nothing computed. lb.h has the rules of every contract. */
#ifndef LB_MOVEMENT_H
#define LB_MOVEMENT_H

#include <stdint.h>

/* ---- copy_b8, copy_b32, copy_b64: out[i] = x[i] for six indices, each with its own strides ----------------------------------------------
 * Elements of 1, 4 or 8 bytes of any kind. Transposes, slices, parts of a concat, repetitions. Item: an index of axis 0. */
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

typedef lb_copy_b8_params lb_copy_b64_params;

typedef void lb_copy_b64_fn(const lb_copy_b64_params *p, const uint64_t *x, uint64_t *out, int32_t begin, int32_t end);

/* ---- fill_b8: out[i] = value. Item: an element. -----------------------------------------------------------------------------------------
 */
typedef struct {
    int32_t value; /* 0 ... 255 */
} lb_fill_b8_params;

typedef void lb_fill_b8_fn(const lb_fill_b8_params *p, uint8_t *out, int32_t begin, int32_t end);

#endif
