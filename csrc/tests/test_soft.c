/* fp32 in integers against the machine's own, on numbers of every kind. */
#include "base/numerics.h"
#include "base/soft.h"
#include "test_support.h"

#include <math.h>
#include <string.h>

enum { PAIRS = 1 << 20 };

static uint32_t bits(float v) {
    uint32_t b;
    memcpy(&b, &v, sizeof b);
    return v == v ? b : LB_SOFT_NAN;
}

static float real(uint32_t b) {
    float v;
    memcpy(&v, &b, sizeof v);
    return v;
}

/* Any bits; few significant ones, so that there are ties; neighbours of the borders; numbers of about the size of `near`. */
static uint32_t number(uint32_t near) {
    static const uint32_t border[] = {0,           1,           0x7fffffu,   0x800000u,   0x800001u,
                                      0x7f7fffffu, 0x7f800000u, 0x7f800001u, 0x7fc00000u, 0x3f800000u};
    const uint32_t any = random_u32();
    switch (random_u32() % 5) {
    case 0:
        return any;
    case 1:
        return any & (0xff800000u | 0x7fffffu << (random_u32() % 23));
    case 2:
        return border[any % 10] | (any & 0x80000000u);
    case 3:
        return (near ^ (any & 0x80ffffffu)) + ((any >> 26 & 3) << 23);
    default:
        return any & 0x807fffffu; /* subnormal */
    }
}

static void test_operations(void) {
    int sums = 1, differences = 1, products = 1, quotients = 1, less = 1, roots = 1;
    for (int i = 0; i < PAIRS; i++) {
        const uint32_t a = number(0x3f800000u), b = number(a);
        const float x = real(a), y = real(b);
        sums &= bits(x + y) == lb_soft_add(a, b);
        differences &= bits(x - y) == lb_soft_add(a, b ^ 0x80000000u);
        products &= bits(x * y) == lb_soft_mul(a, b);
        quotients &= bits(x / y) == lb_soft_div(a, b);
        less &= lb_soft_less(a, b) == (x < y);
        roots &= bits(sqrtf(x)) == lb_soft_sqrt(a);
    }
    expect(sums, "sums in integers have the bits of floats");
    expect(differences, "differences in integers have the bits of floats");
    expect(products, "products in integers have the bits of floats");
    expect(quotients, "quotients in integers have the bits of floats");
    expect(less, "comparisons in integers are those of floats");
    expect(roots, "square roots in integers have the bits of floats");
}

static void test_conversions(void) {
    int narrow = 1, wide = 1, rounded = 1;
    for (int i = 0; i < PAIRS; i++) {
        const int32_t v = (int32_t)(random_u32() >> (random_u32() % 32)) * (i & 1 ? 1 : -1);
        narrow &= bits((float)v) == lb_soft_from_s64(v);
        const int64_t w = (int64_t)(((uint64_t)random_u32() << 32 | random_u32()) >> (random_u32() % 64)) * (i & 1 ? 1 : -1);
        wide &= bits((float)w) == lb_soft_from_s64(w);
        const uint32_t a = i & 1 ? number(0x42000000u) : bits((float)random_int(-600, 600) * 0.5f);
        rounded &= lb_round_clamp(real(a), i % 19 - 9, -128, 127) == lb_soft_round_clamp(a, i % 19 - 9, -128, 127);
        rounded &= lb_round_clamp(real(a), i % 999, -32768, 32767) == lb_soft_round_clamp(a, i % 999, -32768, 32767);
    }
    narrow &= bits((float)INT32_MIN) == lb_soft_from_s64(INT32_MIN) && bits((float)INT64_MIN) == lb_soft_from_s64(INT64_MIN);
    expect(narrow, "int32 becomes the nearest float");
    expect(wide, "int64 becomes the nearest float");
    expect(rounded, "floats become the nearest integer");
}

static void test_requantize(void) {
    static const float special[] = {0.0f,    1.0f,    0.5f,           0.25f,          1.5f,     1e-45f,
                                    FLT_MIN, FLT_MAX, 0x1.fffffep-2f, 0x1.000002p-9f, 0x1p-31f, -0.5f};
    int all = 1;
    for (size_t m = 0; m < 64; m++) { /* every accumulator of 17 bits */
        const float multiplier = m < 12 ? special[m] : (float)random_int(1, 1 << 24) * (1.0f / (float)(1u << (8 + m % 23)));
        for (int32_t acc = -65536; acc <= 65536; acc++)
            all &= lb_requantize(acc, multiplier, -3, -128, 127) == lb_soft_requantize(acc, bits(multiplier), -3, -128, 127);
    }
    for (int i = 0; i < 4 * PAIRS; i++) {
        const int32_t acc = (int32_t)(random_u32() >> (random_u32() % 32)) * (i & 1 ? 1 : -1);
        const uint32_t b = 0x30000000u + random_u32() % 0x10000000u;
        const int32_t zero = random_int(-128, 127);
        all &= lb_requantize(acc, real(b), zero, -128, 127) == lb_soft_requantize(acc, b, zero, -128, 127);
        all &= lb_requantize(acc, real(b), 256 * zero, -32768, 32767) == lb_soft_requantize(acc, b, 256 * zero, -32768, 32767);
    }
    all &= lb_requantize(INT32_MIN, 0.25f, 0, -128, 127) == lb_soft_requantize(INT32_MIN, bits(0.25f), 0, -128, 127);
    expect(all, "requantize in integers is requantize");
}

void test_soft(void) {
    test_operations();
    test_conversions();
    test_requantize();
}
