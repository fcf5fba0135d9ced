/* Code that the implementations of gemm_s8 share: how k is cut. */
#ifndef LB_GEMM_S8_H
#define LB_GEMM_S8_H

#include <stddef.h>
#include <stdint.h>

static inline int32_t lb_segments(int32_t k, int32_t segment) {
    return k > segment ? (int32_t)(((int64_t)k + segment - 1) / segment) : 1;
}

/* Elements of segment s. */
static inline int32_t lb_segment_length(int32_t k, int32_t segment, int32_t s) {
    const int64_t left = k - (int64_t)s * segment;
    return left < segment ? (int32_t)left : segment;
}

#endif
