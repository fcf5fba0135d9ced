/* exp, sigmoid and tanh in steps of fp32 that every backend takes (docs/arithmetic.md, 6 and 7). */
#ifndef LB_EXP_H
#define LB_EXP_H

#include "base/numerics.h"

/* exp(x) for x <= 0; 0 below -87, and for NaN. */
static inline lb_f32 lb_exp(lb_f32 x) {
    if (lb_f32_is_nan(x) || lb_f32_less(x, lb_f32_of_bits(0xc2ae0000u))) /* -87 */
        return lb_f32_of_bits(0);
    static const uint32_t c[] = {0x3ab743ceu, 0x3c088908u, 0x3d2aa9c1u, 0x3e2aaaaau, 0x3f000000u};
    const int32_t exponent = lb_round_clamp(lb_f32_mul(x, lb_f32_of_bits(0x3fb8aa3bu)), 0, -127, 127); /* x / ln 2 */
    const lb_f32 n = lb_f32_from_s32(exponent);
    /* ln 2 in two parts, 0.693359375 and -2.12194440e-4: the first product is exact */
    const lb_f32 r = lb_f32_sub(lb_f32_sub(x, lb_f32_mul(n, lb_f32_of_bits(0x3f318000u))), lb_f32_mul(n, lb_f32_of_bits(0xb95e8083u)));
    lb_f32 p = lb_f32_of_bits(0x39506967u);
    for (int i = 0; i < 5; i++)
        p = lb_f32_add(lb_f32_mul(p, r), lb_f32_of_bits(c[i]));
    const lb_f32 e = lb_f32_add(lb_f32_add(lb_f32_mul(p, lb_f32_mul(r, r)), r), lb_f32_of_bits(0x3f800000u));
    /* e is within 0.7 ... 1.5 and the result is normal: 2^n is added to the exponent */
    return lb_f32_of_bits(lb_f32_bits(e) + ((uint32_t)exponent << 23));
}

static inline lb_f32 lb_magnitude(lb_f32 x) {
    return lb_f32_abs(x);
}

/* NaN gives 1, as in lb_tanh. */
static inline lb_f32 lb_sigmoid(lb_f32 x) {
    const lb_f32 one = lb_f32_of_bits(0x3f800000u), e = lb_exp(lb_f32_neg(lb_f32_abs(x)));
    return lb_f32_div(lb_f32_less(x, lb_f32_of_bits(0)) ? e : one, lb_f32_add(one, e));
}

static inline lb_f32 lb_tanh(lb_f32 x) {
    const lb_f32 one = lb_f32_of_bits(0x3f800000u), a = lb_f32_abs(x), e = lb_exp(lb_f32_neg(lb_f32_add(a, a)));
    const lb_f32 t = lb_f32_div(lb_f32_sub(one, e), lb_f32_add(one, e));
    return lb_f32_less(x, lb_f32_of_bits(0)) ? lb_f32_neg(t) : t;
}

#endif
