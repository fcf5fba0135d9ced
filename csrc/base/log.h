/* The logarithm and the square root in steps of fp32, or of integers, that every backend takes (docs/arithmetic.md, 4 and 5). */
#ifndef LB_LOG_H
#define LB_LOG_H

#include "base/numerics.h"

static inline uint32_t lb_bits(lb_f32 v) {
    return lb_f32_bits(v);
}

static inline lb_f32 lb_from_bits(uint32_t bits) {
    return lb_f32_of_bits(bits);
}

/* ln(x) for normal x > 0. The coefficients are
 * 7.0376836292e-02, -1.1514610310e-01, 1.1676998740e-01, -1.2420140846e-01, 1.4249322787e-01,
 * -1.6668057665e-01, 2.0000714765e-01, -2.4999993993e-01, 3.3333331174e-01. */
static inline lb_f32 lb_log(lb_f32 x) {
    static const uint32_t c[] = {0xbdebd1b8u, 0x3def251au, 0xbdfe5d4fu, 0x3e11e9bfu, 0xbe2aae50u, 0x3e4cceacu, 0xbe7ffffcu, 0x3eaaaaaau};
    int32_t e = (int32_t)(lb_bits(x) >> 23) - 126; /* x = m * 2^e, 0.5 <= m < 1 */
    lb_f32 m = lb_from_bits((lb_bits(x) & 0x007FFFFFu) | 0x3F000000u);
    if (lb_f32_less(m, lb_f32_of_bits(0x3f3504f3u))) { /* the root of 1/2 */
        m = lb_f32_add(m, m);
        e--;
    }
    const lb_f32 n = lb_f32_from_s32(e), r = lb_f32_sub(m, lb_f32_of_bits(0x3f800000u)), z = lb_f32_mul(r, r);
    lb_f32 p = lb_f32_of_bits(0x3d9021bbu);
    for (int i = 0; i < 8; i++)
        p = lb_f32_add(lb_f32_mul(p, r), lb_f32_of_bits(c[i]));
    /* ln 2 in two parts, 0.693359375 and -2.12194440e-4 */
    const lb_f32 low = lb_f32_add(lb_f32_mul(lb_f32_mul(p, r), z), lb_f32_mul(n, lb_f32_of_bits(0xb95e8083u)));
    const lb_f32 y = lb_f32_sub(low, lb_f32_mul(lb_f32_of_bits(0x3f000000u), z));
    return lb_f32_add(lb_f32_add(r, y), lb_f32_mul(n, lb_f32_of_bits(0x3f318000u)));
}

/* The square root, correctly rounded, of x >= 0 (NaN stays NaN): bit by bit in integers, because a chip may have no instruction for it.
 * A root is never half way between two floats (its square would be odd), so one bit more than they hold decides. */
static inline lb_f32 lb_sqrt(lb_f32 x) {
    const uint32_t bits = lb_bits(x);
    if (bits == 0 || bits >= 0x7F800000u)
        return x;
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
