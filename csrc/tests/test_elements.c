/* Elementwise kernels of bytes, every instruction set against `ref`: lengths around the tiles, all ways to broadcast, extremes, in place.
 */
#include "base/numerics.h"
#include "test_support.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(list) ((int32_t)(sizeof list / sizeof *list))

enum { MAX_X = 1 << 15 };

static _Alignas(64) int8_t x[MAX_X], y[MAX_X], w[257];

/* Random bytes, or now and then only the extremes. */
static void fill(int8_t *to, int32_t n) {
    const int extremes = random_int(0, 3) == 0;
    for (int32_t i = 0; i < n; i++)
        to[i] = (int8_t)(!extremes ? random_int(-128, 127) : random_u32() & 1 ? 127 : -128);
}

static const int32_t lengths[] = {0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 1009};

KERNEL_TEST(requantize_s8) {
    static const float scales[] = {1.0f, 0.5f, 0.0173f, 3.7f, 1e-30f, 1e30f};
    for (int32_t s = 0; s < COUNT(scales); s++)
        for (int32_t i = 0; i < COUNT(lengths); i++) {
            lb_requantize_s8_params p = {scales[s], random_int(-128, 127), 0, random_int(-128, 0), random_int(0, 127)};
            p.y_zero = random_int(p.lo, p.hi);
            fill(x, lengths[i] + 3);
            void *args[2] = {x + i % 3};
            expect_same(ref, k, &p, args, 1, (size_t)lengths[i], (size_t)i % 5, lengths[i]);
        }
}

/* A shape of four axes, and an operand that repeats some of them: its strides. */
static void broadcast(const int32_t shape[4], int32_t stride[4]) {
    int32_t next = 1;
    for (int axis = 3; axis >= 0; axis--) {
        const int repeats = random_int(0, 2) == 0;
        stride[axis] = repeats || shape[axis] == 1 ? 0 : next;
        next *= repeats ? 1 : shape[axis];
    }
    if (shape[3] > 1 && stride[3] != 0 && stride[3] != 1)
        abort();
}

/* The bytes of expect_same where the output takes the place of an operand of its shape. */
static void expect_in_place(const lb_kernel *ref, const lb_kernel *k, const void *params, void **args, int operand, int output, int32_t n) {
    static int8_t want[MAX_X], got[MAX_X];
    void *given[4];
    memcpy(given, args, sizeof given);
    given[output] = want;
    ref->call(params, given, 0, n);
    memcpy(got, args[operand], (size_t)n);
    given[operand] = given[output] = got;
    k->call(params, given, 0, n);
    expect_equal(k, want, got, (size_t)n, 0);
}

/* A shape of four axes and the strides of two operands: any, both dense, or one that is repeated row by row beside one that is dense. */
static int32_t two_operands(int round, int32_t shape[4], int32_t a[4], int32_t b[4]) {
    shape[0] = random_int(1, 3), shape[1] = random_int(1, 3), shape[2] = random_int(1, 5), shape[3] = lengths[random_int(1, 16)];
    broadcast(shape, a), broadcast(shape, b);
    if (round % 3 == 0)
        shape[2] = random_int(1, 30), shape[3] = round % 4 ? random_int(1, 200) : random_int(1000, 1100), shape[0] = 1;
    const int32_t n = shape[3], rows = shape[2] * n, dense[4] = {shape[1] * rows, rows, n, 1}, row[4] = {0, n, 0, 1};
    if (round % 3 == 0) {
        memcpy(round % 2 ? a : b, dense, sizeof dense);
        memcpy(round % 2 ? b : a, round % 5 ? row : dense, sizeof dense);
    }
    return shape[0] * shape[1] * rows;
}

static int is_dense(const int32_t shape[4], const int32_t stride[4]) {
    int32_t next = 1;
    for (int axis = 3; axis >= 0; next *= shape[axis--])
        if (shape[axis] > 1 && stride[axis] != next)
            return 0;
    return 1;
}

/* n results of two operands, unaligned, and in the place of one that is dense. */
static void expect_two(const lb_kernel *ref, const lb_kernel *k, const void *params, int round, int32_t n, int a_dense, int b_dense) {
    if (n > MAX_X - 3)
        return;
    fill(x, MAX_X), fill(y, MAX_X);
    void *args[4] = {x + round % 3, y + round % 2};
    expect_same(ref, k, params, args, 2, (size_t)n, (size_t)round % 5, n);
    if (a_dense)
        expect_in_place(ref, k, params, args, 0, 2, n);
    if (b_dense)
        expect_in_place(ref, k, params, args, 1, 2, n);
}

KERNEL_TEST(add_s8) {
    for (int round = 0; round < 600; round++) {
        lb_add_s8_params p = {.offset = (float)random_int(-1024, 1024) * (round % 5 ? 0.25f : round % 25 ? 1e9f : 1e37f)};
        const int32_t n = two_operands(round, p.shape, p.a_stride, p.b_stride);
        const float unit = round % 7 ? 1e-3f : round % 2 ? 1e30f : 1e-38f;
        p.a_multiplier = (float)random_int(1, 4000) * 1e-3f, p.b_multiplier = (float)random_int(-4000, 4000) * unit;
        p.lo = random_int(-128, 0), p.hi = random_int(0, 127);
        expect_two(ref, k, &p, round, n, is_dense(p.shape, p.a_stride), is_dense(p.shape, p.b_stride));
    }
}

KERNEL_TEST(mul_s8) {
    for (int round = 0; round < 600; round++) {
        lb_mul_s8_params p = {.multiplier = (float)random_int(1, 4000) * (round % 7 ? 1e-4f : round % 2 ? 1e30f : 1e-38f)};
        const int32_t n = two_operands(round, p.shape, p.a_stride, p.b_stride);
        if (round % 4 == 1)
            p.multiplier = 1.0f / (float)(1 << random_int(1, 9)); /* ties, and a zero point that is odd sends them elsewhere */
        p.a_zero = random_int(-128, 127), p.b_zero = random_int(-128, 127);
        p.lo = random_int(-128, 0), p.hi = random_int(0, 127), p.y_zero = random_int(p.lo, p.hi);
        expect_two(ref, k, &p, round, n, is_dense(p.shape, p.a_stride), is_dense(p.shape, p.b_stride));
    }
}

static void test_extremum(const lb_kernel *ref, const lb_kernel *k) {
    for (int round = 0; round < 300; round++) {
        lb_max_s8_params p;
        const int32_t n = two_operands(round, p.shape, p.a_stride, p.b_stride);
        expect_two(ref, k, &p, round, n, is_dense(p.shape, p.a_stride), is_dense(p.shape, p.b_stride));
    }
}
TESTED_BY(max_s8, test_extremum)
TESTED_BY(min_s8, test_extremum)

/* Tables of any entries, and such as stay the same at one end or both, from any entry on. */
KERNEL_TEST(table_s8) {
    for (int32_t i = 0; i < 40 * COUNT(lengths); i++) {
        const lb_table_s8_params p = {0};
        const int32_t n = lengths[i % COUNT(lengths)];
        fill(x, n + 3), fill(w, 257);
        for (int32_t j = 0; j < 256 && j < n; j++)
            x[j] = (int8_t)j;
        int8_t *table = w + i % 2;
        if (i % 3)
            memset(table, random_int(-128, 127), (size_t)random_int(0, i % 11 ? 200 : 256));
        if (i % 4 > 1) {
            const int32_t from = random_int(i % 7 ? 100 : 0, 255);
            memset(table + from, random_int(-128, 127), (size_t)(256 - from));
        }
        void *args[4] = {x + i % 3, table};
        expect_same(ref, k, &p, args, 2, (size_t)n, (size_t)i % 5, n);
        expect_in_place(ref, k, &p, args, 0, 2, n);
    }
}

KERNEL_TEST(table_s8_s16) {
    static int16_t table[256];
    for (int32_t i = 0; i < 256; i++)
        table[i] = (int16_t)random_int(-32768, 32767);
    for (int32_t i = 0; i < COUNT(lengths); i++) {
        const lb_table_s8_s16_params p = {0};
        fill(x, lengths[i] + 3);
        void *args[3] = {x + i % 3, table};
        expect_same(ref, k, &p, args, 2, 2 * (size_t)lengths[i], 2 * ((size_t)i % 3), lengths[i]);
        int16_t out[1009];
        args[2] = out;
        k->call(&p, args, 0, lengths[i]);
        for (int32_t j = 0; j < lengths[i]; j++)
            expect(out[j] == table[(x + i % 3)[j] + 128], "table_s8_s16 looks up");
    }
}

KERNEL_TEST(channel_table) {
    static float table[4 * 256];
    for (int32_t i = 0; i < COUNT(table); i++)
        table[i] = (float)random_int(-1000000, 1000000) * 0.37f;
    for (int32_t round = 0; round < 60; round++) {
        const lb_channel_table_params p = {random_int(1, 4), random_int(1, 40), 1 << random_int(0, 2)};
        const int32_t n = random_int(1, 3) * p.channels * p.inner;
        fill(x, n);
        void *args[3] = {x, table};
        expect_same(ref, k, &p, args, 2, (size_t)(n * p.out_bytes), 0, n);
        float out[3 * 4 * 40];
        args[2] = out;
        k->call(&p, args, 0, n);
        for (int32_t j = 0; j < n; j++) {
            const int32_t at = 256 * (j / p.inner % p.channels) + (uint8_t)x[j];
            const int32_t same = memcmp((const char *)out + j * p.out_bytes, (const char *)table + at * p.out_bytes, (size_t)p.out_bytes);
            expect(same == 0, "channel_table looks up");
        }
    }
}

KERNEL_TEST(table_s8_f32) {
    static float table[256];
    for (int32_t i = 0; i < 256; i++)
        table[i] = (float)random_int(-1000, 1000) * 0.25f;
    for (int32_t i = 0; i < COUNT(lengths); i++) {
        const lb_table_s8_f32_params p = {0};
        fill(x, lengths[i] + 3);
        void *args[3] = {x + i % 3, table};
        expect_same(ref, k, &p, args, 2, 4 * (size_t)lengths[i], 4 * ((size_t)i % 3), lengths[i]);
        float out[1009];
        args[2] = out;
        k->call(&p, args, 0, lengths[i]);
        for (int32_t j = 0; j < lengths[i]; j++)
            expect(out[j] == table[(x + i % 3)[j] + 128], "table_s8_f32 looks up");
    }
}
