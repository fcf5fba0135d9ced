/* Rows by index. lb.h has the rules of every contract. */
#ifndef LB_GATHER_H
#define LB_GATHER_H

#include <stdint.h>

/* ---- gather: out[o][i] = x[o][index[i]], slices of `bytes` bytes ------------------------------------------------------------------------
 * x is (outer, size, bytes). A negative index counts from the end; the caller has made sure that it is inside, and one that is not is taken
 * for the nearest that is: nothing outside x is read. Item: one of outer x count. */
typedef struct {
    int32_t size;        /* of the axis, >= 1 */
    int32_t count;       /* of indices */
    int32_t bytes;       /* of a slice */
    int32_t index_bytes; /* 4 or 8 */
} lb_gather_params;

typedef void lb_gather_fn(const lb_gather_params *p, const uint8_t *x, const void *index, uint8_t *out, int32_t begin, int32_t end);

#endif
