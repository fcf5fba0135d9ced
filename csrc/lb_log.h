/* The logarithm and the square root in steps of fp32, or of integers, that every backend takes (docs/arithmetic.md, 4 and 5). */
#ifndef LB_LOG_H
#define LB_LOG_H

#include "lb_numerics.h"

#include <string.h>

static inline uint32_t lb_bits(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static inline float lb_from_bits(uint32_t bits) {
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* ln(x) for normal x > 0. */
static inline float lb_log(float x) {
    static const float c[] = {-1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f, 1.4249322787e-1f,
                              -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f};
    int32_t e = (int32_t)(lb_bits(x) >> 23) - 126; /* x = m * 2^e, 0.5 <= m < 1 */
    float m = lb_from_bits((lb_bits(x) & 0x007FFFFFu) | 0x3F000000u);
    if (m < 0.70710678f) {
        m = m + m;
        e--;
    }
    const float n = (float)e, r = m - 1.0f, z = r * r;
    float p = 7.0376836292e-2f;
    for (int i = 0; i < 8; i++)
        p = p * r + c[i];
    const float y = ((p * r) * z + n * -2.12194440e-4f) - 0.5f * z;
    return (r + y) + n * 0.693359375f;
}

/* The square root, correctly rounded, of x >= 0 (NaN stays NaN): bit by bit in integers, because a chip may have no instruction for it.
 * A root is never half way between two floats (its square would be odd), so one bit more than they hold decides. */
static inline float lb_sqrt(float x) {
    if (!(x > 0.0f) || x > FLT_MAX)
        return x;
    uint32_t bits = lb_bits(x);
    int32_t e = (int32_t)(bits >> 23) - 150; /* x = m * 2^e */
    uint64_t m = bits & 0x007FFFFFu;
    if (bits >> 23)
        m |= 0x00800000u;
    else
        e++;
    for (; m < 0x00800000u; e--)
        m <<= 1;
    if (!(e & 1)) {
        m <<= 1;
        e--;
    }
    uint64_t rest = m << 25, root = 0; /* 49 or 50 bits: the root has 25, one more than a float */
    for (uint64_t bit = 1ull << 48; bit; bit >>= 2) {
        const uint64_t step = root + bit;
        root >>= 1;
        if (rest >= step) {
            rest -= step;
            root += bit;
        }
    }
    const uint32_t rounded = (uint32_t)((root >> 1) + (root & 1));
    return lb_from_bits(((uint32_t)((e - 25) / 2 + 151) << 23) + (rounded - 0x00800000u));
}

#endif
