/* Code that implementations of the norms share: from sums to mean and factor. */
#ifndef LB_NORM_SHARED_H
#define LB_NORM_SHARED_H

#include "lb.h"
#include "base/elements.h"
#include "base/log.h"

typedef struct {
    lb_f32 mean, r;
} lb_moments;

/* The mean, and the radicand of the factor in the factor's place. */
static inline lb_moments lb_variance_of(const lb_norm_s8_params *p, int64_t s1, int64_t s2) {
    const int64_t n = p->n;
    const lb_f32 mean = p->centered ? lb_f32_div(lb_f32_from_s64(s1), lb_f32_from_s64(n)) : lb_f32_of_bits(0);
    const lb_f32 v = p->centered ? lb_f32_div(lb_f32_from_s64(n * s2 - s1 * s1), lb_f32_from_s64(n * n))
                                 : lb_f32_div(lb_f32_from_s64(s2), lb_f32_from_s64(n));
    return (lb_moments){mean, lb_f32_add(v, p->eps)};
}

static inline lb_moments lb_moments_of(const lb_norm_s8_params *p, int64_t s1, int64_t s2) {
    const lb_moments m = lb_variance_of(p, s1, s2);
    return (lb_moments){m.mean, lb_f32_div(lb_f32_from_s32(1), lb_sqrt(m.r))};
}

/* The channel of the first element of a set. */
static inline int32_t lb_norm_channel(const lb_norm_s8_params *p, int32_t set) {
    return set % p->cycle * (p->n / p->run);
}

#endif
