/* The portable layout of a packed b: zero points (segments x n, int32), then the columns one after the other (n x k). Unsigned
 * bytes become signed ones, and their zero points follow: q - 128 - (z - 128). */
#ifndef LB_GEMM_S8_REF_H
#define LB_GEMM_S8_REF_H

#include "lb.h"
#include "gemm/gemm_s8.h"

static inline int32_t *lb_ref_zero_points(const void *packed) {
    return (int32_t *)packed;
}

static inline int8_t *lb_ref_columns(const void *packed, int32_t k, int32_t n, int32_t segment) {
    return (int8_t *)(lb_ref_zero_points(packed) + (size_t)lb_segments(k, segment) * (size_t)n);
}

/* Sum of (a - za) * (b - zb), modulo 2^32. */
static inline int32_t lb_ref_dot(const int8_t *a, int32_t a_unsigned, int32_t za, const int8_t *b, int32_t zb, int32_t k) {
    uint32_t sum = 0;
    for (int32_t i = 0; i < k; i++)
        sum += (uint32_t)(((a_unsigned ? (uint8_t)a[i] : a[i]) - za) * (b[i] - zb));
    return (int32_t)sum;
}

#endif
