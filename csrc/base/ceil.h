/* Integer divisions of sizes. */
#ifndef LB_CEIL_H
#define LB_CEIL_H

#include <stdint.h>

/* ceil(v / by), for v >= 0 and by >= 1. */
static inline int64_t lb_ceil(int64_t v, int64_t by) {
    return (v + by - 1) / by;
}

/* v rounded up to a multiple. */
static inline int64_t lb_ceil_to(int64_t v, int64_t multiple) {
    return lb_ceil(v, multiple) * multiple;
}

static inline int64_t lb_most_of(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static inline int64_t lb_least_of(int64_t a, int64_t b) {
    return a < b ? a : b;
}

#endif
