/* Indices, masks and integers: `ref` against plain formulas, and every instruction set against `ref`. */
#include "test_support.h"

#include <math.h>
#include <string.h>

static int64_t a64[512], b64[512], got64[512];
static int32_t a32[512], b32[512], got32[512];
static float af[512], bf[512];
static uint8_t a8[512], b8[512], got8[4096];

static void fill(void) {
    for (int i = 0; i < 512; i++) {
        a64[i] = (int64_t)(((uint64_t)random_u32() << 32) | random_u32()), b64[i] = i % 3 ? a64[i] : random_int(-5, 5);
        a32[i] = (int32_t)random_u32(), b32[i] = i % 3 ? a32[i] : random_int(-5, 5);
        af[i] = i % 7 ? (float)random_int(-3, 3) : NAN, bf[i] = (float)random_int(-3, 3);
        a8[i] = (uint8_t)random_int(0, 1), b8[i] = (uint8_t)random_int(0, 1);
    }
}

KERNEL_TEST(cast) {
    (void)ref;
    const float f[] = {-1.9f, 300.7f, NAN, 1e30f, 0.0f, -0.5f};
    const int32_t as_int[] = {-1, 300, 0, 0, 0, 0};
    const uint8_t as_bool[] = {1, 1, 1, 1, 0, 1};
    lb_cast_params p = {0, 2};
    void *args[2] = {(void *)f, got32};
    k->call(&p, args, 0, 6);
    expect(memcmp(got32, as_int, sizeof as_int) == 0, "cast: floats drop their fraction");
    p.to = 6, args[1] = got8;
    k->call(&p, args, 0, 6);
    expect(memcmp(got8, as_bool, 6) == 0, "cast: anything but 0 is true");
    fill();
    p.from = 1, p.to = 3, args[0] = a64;
    k->call(&p, args, 0, 512);
    int ok = 1;
    for (int i = 0; i < 512; i++)
        ok &= (uint16_t)((int16_t *)(void *)got8)[i] == (uint16_t)((uint64_t)a64[i] & 0xFFFF);
    expect(ok, "cast: integers drop their upper bits");
    float back[512];
    p.to = 0, args[1] = back;
    k->call(&p, args, 100, 512);
    k->call(&p, args, 0, 100);
    for (int i = 0; i < 512; i++)
        ok &= back[i] == (float)a64[i];
    expect(ok, "cast: integers are rounded to floats");
}

static int truth(int kind, int less, int equal, int greater) {
    const int all[] = {equal, !equal, less, less || equal, greater, greater || equal};
    return all[kind];
}

static void test_compare(const lb_kernel *ref, const lb_kernel *k) {
    (void)ref;
    const char type = k->contract->name[strlen("compare_")], wide = k->contract->name[strlen("compare_s")];
    for (int kind = 0; kind < 6; kind++) {
        fill();
        const lb_compare_f32_params p = {{1, 1, 16, 32}, {0, 0, 32, 1}, {0, 0, 32, 1}, kind};
        void *args[3] = {type == 'f'   ? (void *)af
                         : wide == '6' ? (void *)a64
                                       : (void *)a32,
                         type == 'f'   ? (void *)bf
                         : wide == '6' ? (void *)b64
                                       : (void *)b32,
                         got8};
        k->call(&p, args, 77, 512);
        k->call(&p, args, 0, 77);
        int ok = 1;
        for (int i = 0; i < 512; i++) {
            const int less = type == 'f' ? af[i] < bf[i] : wide == '6' ? a64[i] < b64[i] : a32[i] < b32[i];
            const int greater = type == 'f' ? af[i] > bf[i] : wide == '6' ? a64[i] > b64[i] : a32[i] > b32[i];
            const int equal = type == 'f' ? af[i] == bf[i] : !less && !greater;
            ok &= got8[i] == truth(kind, less, equal, greater);
        }
        expect(ok, k->contract->name);
    }
}
TESTED_BY(compare_f32, test_compare)
TESTED_BY(compare_s32, test_compare)
TESTED_BY(compare_s64, test_compare)

static void test_arithmetic(const lb_kernel *ref, const lb_kernel *k) {
    (void)ref;
    const int wide = k->contract->name[strlen("arithmetic_s")] == '6';
    for (int kind = 0; kind < 5; kind++) {
        fill();
        const lb_compare_f32_params p = {{1, 1, 16, 32}, {0, 0, 32, 1}, {0, 0, 0, 1}, kind};
        void *args[3] = {wide ? (void *)a64 : (void *)a32, wide ? (void *)b64 : (void *)b32, wide ? (void *)got64 : (void *)got32};
        k->call(&p, args, 0, 512);
        int ok = 1;
        for (int i = 0; i < 512; i++) {
            const int64_t a = wide ? a64[i] : a32[i], b = wide ? b64[i % 32] : b32[i % 32], have = wide ? got64[i] : got32[i];
            const uint64_t all[] = {(uint64_t)a + (uint64_t)b, (uint64_t)a - (uint64_t)b, (uint64_t)a * (uint64_t)b,
                                    (uint64_t)(a > b ? a : b), (uint64_t)(a < b ? a : b)};
            ok &= wide ? (uint64_t)have == all[kind] : (uint32_t)have == (uint32_t)all[kind];
        }
        expect(ok, k->contract->name);
    }
}
TESTED_BY(arithmetic_s32, test_arithmetic)
TESTED_BY(arithmetic_s64, test_arithmetic)

KERNEL_TEST(logic_b8) {
    (void)ref;
    for (int kind = 0; kind < 3; kind++) {
        fill();
        const lb_compare_f32_params p = {{1, 1, 1, 512}, {0, 0, 0, 1}, {0, 0, 0, 1}, kind};
        void *args[3] = {a8, b8, got8};
        k->call(&p, args, 0, 512);
        int ok = 1;
        for (int i = 0; i < 512; i++)
            ok &= got8[i] == (kind == 0 ? a8[i] && b8[i] : kind == 1 ? a8[i] || b8[i] : a8[i] != b8[i]);
        expect(ok, "logic_b8");
    }
}

KERNEL_TEST(not_b8) {
    (void)ref;
    fill();
    const lb_not_b8_params p = {0};
    void *args[2] = {a8, got8};
    k->call(&p, args, 0, 512);
    int ok = 1;
    for (int i = 0; i < 512; i++)
        ok &= got8[i] == !a8[i];
    expect(ok, "not_b8");
}

static void test_where(const lb_kernel *ref, const lb_kernel *k) {
    (void)ref;
    fill();
    const int wide = k->contract->name[strlen("where_b")] == '6';
    const lb_where_b32_params p = {{2, 4, 8, 8}, {0, 0, 8, 1}, {256, 64, 8, 1}, {0, 0, 0, 0}};
    void *args[4] = {a8, wide ? (void *)a64 : (void *)a32, wide ? (void *)b64 : (void *)b32, wide ? (void *)got64 : (void *)got32};
    k->call(&p, args, 100, 512);
    k->call(&p, args, 0, 100);
    int ok = 1;
    for (int i = 0; i < 512; i++)
        ok &= wide ? got64[i] == (a8[i % 64] ? a64[i] : b64[0]) : got32[i] == (a8[i % 64] ? a32[i] : b32[0]);
    expect(ok, k->contract->name);
}
TESTED_BY(where_b32, test_where)
TESTED_BY(where_b64, test_where)

static void test_fill_wide(const lb_kernel *ref, const lb_kernel *k) {
    (void)ref;
    const int wide = k->contract->name[strlen("fill_b")] == '6';
    const lb_fill_b32_params p32 = {0x12345678u};
    const lb_fill_b64_params p64 = {0x123456789ABCDEF0u};
    memset(got64, 0, sizeof got64), memset(got32, 0, sizeof got32);
    void *args[1] = {wide ? (void *)got64 : (void *)got32};
    k->call(wide ? (const void *)&p64 : (const void *)&p32, args, 3, 9);
    int ok = 1;
    for (int i = 0; i < 20; i++)
        ok &= wide ? got64[i] == (i >= 3 && i < 9 ? 0x123456789ABCDEF0 : 0) : got32[i] == (i >= 3 && i < 9 ? 0x12345678 : 0);
    expect(ok, k->contract->name);
}
TESTED_BY(fill_b32, test_fill_wide)
TESTED_BY(fill_b64, test_fill_wide)
