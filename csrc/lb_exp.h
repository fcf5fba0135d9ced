/* exp, sigmoid and tanh in steps of fp32 that every backend takes (docs/arithmetic.md, 6 and 7). */
#ifndef LB_EXP_H
#define LB_EXP_H

#include "lb_numerics.h"

#include <string.h>

/* exp(x) for x <= 0; 0 below -87, and for NaN. */
static inline float lb_exp(float x) {
    if (!(x >= -87.0f))
        return 0.0f;
    const int32_t exponent = lb_rne(x * 1.44269502f);
    const float n = (float)exponent, r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.98756912e-4f;
    p = p * r + 1.39819994e-3f;
    p = p * r + 8.33345205e-3f;
    p = p * r + 4.16657962e-2f;
    p = p * r + 1.66666657e-1f;
    p = p * r + 0.5f;
    const float e = ((p * (r * r)) + r) + 1.0f;
    uint32_t bits; /* e is within 0.7 ... 1.5 and the result is normal: 2^n is added to the exponent */
    memcpy(&bits, &e, sizeof bits);
    bits += (uint32_t)exponent << 23;
    float y;
    memcpy(&y, &bits, sizeof y);
    return y;
}

static inline float lb_magnitude(float x) {
    return x < 0.0f ? -x : x;
}

/* NaN gives 1, as in lb_tanh. */
static inline float lb_sigmoid(float x) {
    const float e = lb_exp(-lb_magnitude(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

static inline float lb_tanh(float x) {
    const float a = lb_magnitude(x), e = lb_exp(-(a + a)), t = (1.0f - e) / (1.0f + e);
    return x < 0.0f ? -t : t;
}

#endif
