/* Small words of float kernels in portable C. */
#ifndef LB_SCALAR_F32_H
#define LB_SCALAR_F32_H

#include "base/numerics.h"

#include <float.h>

#define lb_bits_of(v) lb_f32_bits(v)
#define lb_of_bits(bits) lb_f32_of_bits(bits)

#define LB_INFINITY (lb_of_bits(0x7F800000u))
#define LB_NAN (lb_of_bits(0x7FC00000u))

/* v within lo ... hi; NaN stays. Bounds that cross give hi. */
static inline float lb_clampf(float v, float lo, float hi) {
    v = v < lo ? lo : v;
    return v > hi ? hi : v;
}

/* The larger one, NaN if one is NaN. */
static inline float lb_maxf(float a, float b) {
    return a > b || a != a ? a : b;
}

static inline float lb_minf(float a, float b) {
    return a < b || a != a ? a : b;
}

static inline float lb_absf(float v) {
    return v < 0 ? -v : v + 0.0f;
}

#endif
