/* IEEE fp32 in integers: the same bits as a floating-point unit gives, for chips that have none. Numbers are their bits.
 *
 * Rounds to nearest, ties to even; subnormals, infinities and signed zeros are as the standard says; every NaN is LB_SOFT_NAN.
 * numerics.h uses these functions where LB_NO_FLOAT is defined; csrc/test_soft.c compares each with the unit of the machine. */
#ifndef LB_SOFT_H
#define LB_SOFT_H

#include <stdint.h>

#define LB_SOFT_NAN 0x7fc00000u
#define LB_SOFT_INFINITY 0x7f800000u

/* The place of the highest bit; v is not 0. */
static inline int32_t lb_soft_top(uint64_t v) {
#ifdef __GNUC__
    const uint32_t high = (uint32_t)(v >> 32);
    return high ? 63 - __builtin_clz(high) : 31 - __builtin_clz((uint32_t)v);
#else
    int32_t top = 0;
    for (int32_t step = 32; step; step /= 2)
        if (v >> step) {
            v >>= step;
            top += step;
        }
    return top;
#endif
}

/* m / 2^drop to the nearest integer, ties to even; drop >= 0. */
static inline uint64_t lb_soft_shift(uint64_t m, int32_t drop) {
    if (drop == 0)
        return m;
    if (drop > 63)
        return drop == 64 && m > (uint64_t)1 << 63;
    const uint64_t kept = m >> drop, rest = m - (kept << drop), half = (uint64_t)1 << (drop - 1);
    return kept + (rest > half || (rest == half && (kept & 1)));
}

/* m * 2^exponent as fp32. The lowest bit of m may stand for everything below it, if m has more than 26 bits. */
static inline uint32_t lb_soft_pack(uint32_t sign, int32_t exponent, uint64_t m) {
    if (m == 0)
        return sign;
    const int32_t top = lb_soft_top(m), e = exponent + top;
    if (e > 127)
        return sign | LB_SOFT_INFINITY;
    const int32_t drop = e >= -126 ? top - 23 : -149 - exponent;
    const uint32_t mantissa = (uint32_t)(drop > 0 ? lb_soft_shift(m, drop) : m << -drop);
    return sign | (mantissa + (e >= -126 ? (uint32_t)(e + 126) << 23 : 0)); /* rounding up carries into the exponent, up to infinity */
}

static inline int32_t lb_soft_is_nan(uint32_t a) {
    return (a & 0x7fffffffu) > LB_SOFT_INFINITY;
}

/* A finite number is mantissa * 2^exponent. */
static inline uint32_t lb_soft_mantissa(uint32_t a) {
    return (a & 0x7f800000u) ? (a & 0x7fffffu) | 0x800000u : a & 0x7fffffu;
}

static inline int32_t lb_soft_exponent(uint32_t a) {
    const int32_t e = (int32_t)(a >> 23 & 255);
    return (e ? e : 1) - 150;
}

static inline uint32_t lb_soft_from_s64(int64_t v) {
    return lb_soft_pack(v < 0 ? 0x80000000u : 0, 0, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

static inline uint32_t lb_soft_mul(uint32_t a, uint32_t b) {
    const uint32_t sign = (a ^ b) & 0x80000000u, x = a & 0x7fffffffu, y = b & 0x7fffffffu;
    if (x >= LB_SOFT_INFINITY || y >= LB_SOFT_INFINITY)
        return lb_soft_is_nan(a) || lb_soft_is_nan(b) || x == 0 || y == 0 ? LB_SOFT_NAN : sign | LB_SOFT_INFINITY;
    return lb_soft_pack(sign, lb_soft_exponent(a) + lb_soft_exponent(b), (uint64_t)lb_soft_mantissa(a) * lb_soft_mantissa(b));
}

static inline uint32_t lb_soft_div(uint32_t a, uint32_t b) {
    const uint32_t sign = (a ^ b) & 0x80000000u, x = a & 0x7fffffffu, y = b & 0x7fffffffu;
    if (x >= LB_SOFT_INFINITY)
        return lb_soft_is_nan(a) || y >= LB_SOFT_INFINITY ? LB_SOFT_NAN : sign | LB_SOFT_INFINITY;
    if (y >= LB_SOFT_INFINITY)
        return lb_soft_is_nan(b) ? LB_SOFT_NAN : sign;
    if (y == 0)
        return x == 0 ? LB_SOFT_NAN : sign | LB_SOFT_INFINITY;
    if (x == 0)
        return sign;
    const int32_t up = 62 - lb_soft_top(lb_soft_mantissa(a)); /* a quotient of 38 bits or more */
    const uint64_t n = (uint64_t)lb_soft_mantissa(a) << up, d = lb_soft_mantissa(b), q = n / d;
    return lb_soft_pack(sign, lb_soft_exponent(a) - up - lb_soft_exponent(b), q | (q * d != n));
}

static inline uint32_t lb_soft_add(uint32_t a, uint32_t b) {
    if ((a & 0x7fffffffu) < (b & 0x7fffffffu)) {
        const uint32_t t = a;
        a = b;
        b = t;
    }
    if ((a & 0x7fffffffu) >= LB_SOFT_INFINITY) /* the larger one: NaN is above infinity */
        return lb_soft_is_nan(a) || (a ^ b) == 0x80000000u ? LB_SOFT_NAN : a;
    const int32_t gap = lb_soft_exponent(a) - lb_soft_exponent(b);
    const uint64_t x = (uint64_t)lb_soft_mantissa(a) << 32, y = (uint64_t)lb_soft_mantissa(b) << 32;
    const uint64_t low = gap < 64 ? y >> gap | (gap && y << (64 - gap) != 0) : y != 0;
    if (((a ^ b) & 0x80000000u) == 0)
        return lb_soft_pack(a & 0x80000000u, lb_soft_exponent(a) - 32, x + low);
    return x == low ? 0 : lb_soft_pack(a & 0x80000000u, lb_soft_exponent(a) - 32, x - low);
}

/* a < b; never of a NaN. */
static inline int32_t lb_soft_less(uint32_t a, uint32_t b) {
    if (lb_soft_is_nan(a) || lb_soft_is_nan(b) || ((a | b) & 0x7fffffffu) == 0)
        return 0;
    const uint32_t x = a & 0x80000000u ? ~a : a | 0x80000000u, y = b & 0x80000000u ? ~b : b | 0x80000000u;
    return x < y;
}

/* The square root; of numbers below 0 NaN. */
static inline uint32_t lb_soft_sqrt(uint32_t a) {
    if ((a & 0x7fffffffu) == 0 || a == LB_SOFT_INFINITY)
        return a;
    if (a > LB_SOFT_INFINITY)
        return LB_SOFT_NAN;
    int32_t up = 62 - lb_soft_top(lb_soft_mantissa(a)), e = lb_soft_exponent(a);
    up -= (e - up) & 1; /* an even exponent */
    uint64_t rest = (uint64_t)lb_soft_mantissa(a) << up, root = 0;
    for (uint64_t bit = (uint64_t)1 << 62; bit; bit >>= 2) {
        if (rest >= root + bit) {
            rest -= root + bit;
            root = (root >> 1) + bit;
        } else
            root >>= 1;
    }
    return lb_soft_pack(0, (e - up) / 2, root << 1 | (rest != 0)) - ((uint32_t)1 << 23); /* the bit after the root doubles it */
}

/* clamp(rne(v) + zero_point, lo, hi) of mantissa * 2^exponent; mantissa < 2^25. */
static inline int32_t lb_soft_clamp(int32_t negative, uint32_t mantissa, int32_t exponent, int32_t zero_point, int32_t lo, int32_t hi) {
    uint32_t v;
    if (exponent >= 0)
        v = mantissa && exponent > 5 ? 1u << 30 : mantissa << (exponent > 5 ? 5 : exponent); /* beyond every lo and hi */
    else if (exponent < -26)
        v = 0;
    else {
        const uint32_t half = 1u << (-exponent - 1), kept = mantissa >> -exponent, rest = mantissa - (kept << -exponent);
        v = kept + (rest > half || (rest == half && (kept & 1)));
    }
    const int32_t q = zero_point + (negative ? -(int32_t)v : (int32_t)v);
    return q < lo ? lo : q > hi ? hi : q;
}

static inline int32_t lb_soft_round_clamp(uint32_t v, int32_t zero_point, int32_t lo, int32_t hi) {
    if (lb_soft_is_nan(v))
        v = 0;
    return lb_soft_clamp((int32_t)(v >> 31), lb_soft_mantissa(v), lb_soft_exponent(v), zero_point, lo, hi);
}

/* round_clamp(from_s64(acc) * multiplier) without packing in between; multiplier is finite. A product below the normal numbers rounds
 * to 0 with fewer bits and with more. */
static inline int32_t lb_soft_requantize(int32_t acc, uint32_t multiplier, int32_t zero_point, int32_t lo, int32_t hi) {
    const int32_t negative = (acc < 0) != (int32_t)(multiplier >> 31);
    uint32_t m = acc < 0 ? 0u - (uint32_t)acc : (uint32_t)acc;
    int32_t exponent = lb_soft_exponent(multiplier);
    if (m >> 24) { /* fl32 of the accumulator */
        const int32_t drop = lb_soft_top(m) - 23;
        m = (uint32_t)lb_soft_shift(m, drop);
        exponent += drop;
    }
    uint64_t product = (uint64_t)m * lb_soft_mantissa(multiplier);
    if (product >> 24) {
        const int32_t drop = lb_soft_top(product) - 23;
        product = lb_soft_shift(product, drop);
        exponent += drop;
    }
    return lb_soft_clamp(negative, (uint32_t)product, exponent, zero_point, lo, hi);
}

#endif
