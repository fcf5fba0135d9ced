/* How an elementwise operation that broadcasts walks over its operands: in runs along the last axis. */
#ifndef LB_BROADCAST_H
#define LB_BROADCAST_H

#include <stdint.h>

/* `count` elements of the output from `at` on, and where the operands stand; they move by the last of their strides. */
typedef struct {
    int32_t at, count, a, b;
} lb_run;

/* The run that starts at element `at` of an output of `shape` and ends before `end`, or with the last axis. */
static inline lb_run lb_run_at(const int32_t shape[4], const int32_t a_stride[4], const int32_t b_stride[4], int32_t at, int32_t end) {
    int32_t rest = at, a = 0, b = 0, left = 0;
    for (int axis = 3; axis >= 0; axis--) {
        const int32_t index = rest % shape[axis];
        rest /= shape[axis];
        a += index * a_stride[axis];
        b += index * b_stride[axis];
        if (axis == 3)
            left = shape[3] - index;
    }
    return (lb_run){at, left < end - at ? left : end - at, a, b};
}

#endif
