/* What implementations of the norms share: from sums to mean and factor. */
#ifndef LB_NORM_H
#define LB_NORM_H

#include "lb.h"
#include "lb_elements.h"
#include "lb_log.h"

typedef struct {
    float mean, r;
} lb_moments;

static inline lb_moments lb_moments_of(const lb_norm_s8_params *p, int64_t s1, int64_t s2) {
    const int64_t n = p->n;
    const float mean = p->centered ? (float)s1 / (float)n : 0.0f;
    const float v = p->centered ? (float)(n * s2 - s1 * s1) / (float)(n * n) : (float)s2 / (float)n;
    return (lb_moments){mean, 1.0f / lb_sqrt(v + p->eps)};
}

/* The channel of the first element of a set. */
static inline int32_t lb_norm_channel(const lb_norm_s8_params *p, int32_t set) {
    return set % p->cycle * (p->n / p->run);
}

#endif
