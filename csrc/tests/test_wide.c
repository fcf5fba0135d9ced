/* Kernels of 16 bits, every instruction set against `ref`: sizes around the tiles, extremes, weights of 8 and 16 bits. */
#include "base/numerics.h"
#include "test_support.h"

#include <math.h>
#include <string.h>

enum { MAX = 1 << 14, COLUMNS = 64 };

static _Alignas(64) int16_t x[MAX], y[MAX], w[MAX];
static _Alignas(64) char packed[1 << 18];
static int64_t bias[COLUMNS];
static float multiplier[COLUMNS], reals[MAX];

static void fill(int16_t *to, int32_t least, int32_t most) {
    const int extremes = random_int(0, 3) == 0;
    for (int i = 0; i < MAX; i++)
        to[i] = (int16_t)(extremes ? (random_u32() & 1 ? most : least) : random_int(least, most));
}

/* Weights w (n, k) as dot2_simd.h says. */
static void pack(int32_t n, int32_t k, int32_t planes, int32_t narrow) {
    memset(packed, 0, sizeof packed);
    const int32_t columns = (n + 15) / 16 * 16, depth = (k + 1) / 2 * 2;
    memcpy(packed, &planes, 4), memcpy(packed + 4, &narrow, 4);
    int64_t *sums = (int64_t *)(void *)(packed + 64);
    int16_t *panels = (int16_t *)(void *)(sums + columns);
    for (int32_t j = 0; j < n; j++)
        for (int32_t i = 0; i < k; i++) {
            const int32_t v = w[j * k + i], low = planes == 2 ? ((v + 128) & 255) - 128 : v;
            const int32_t at = j / 16 * 16 * depth + i / 2 * 32 + j % 16 * 2 + i % 2;
            sums[j] += v;
            panels[at] = (int16_t)low;
            if (planes == 2)
                panels[columns * depth + at] = (int16_t)((v - low) / 256);
        }
}

static void test_linear_s16(const lb_kernel *ref, const lb_kernel *k) {
    static const int32_t depths[] = {0, 1, 2, 3, 15, 16, 31, 64, 127, 255, 256, 257, 520};
    const int32_t bytes = strcmp(k->contract->args[4].type, "float") == 0 ? 4 : strcmp(k->contract->args[4].type, "int8_t") == 0 ? 1 : 2;
    for (int round = 0; round < 300; round++) {
        const int32_t planes = random_int(1, 2), depth = depths[random_int(0, 12)], most = depth ? MAX / depth : COLUMNS;
        lb_linear_s8_params p = {.rows = random_int(0, most < 60 ? most : 60), .k = depth, .n = random_int(1, most < COLUMNS ? most : 40)};
        p.block_rows = random_int(1, 60), p.block_columns = 16 * random_int(1, 3), p.out_stride = p.n + random_int(0, 3);
        const int32_t half = bytes == 1 ? 128 : 32768;
        p.lo = random_int(-half, 0), p.hi = random_int(0, half - 1), p.y_zero = random_int(p.lo, p.hi);
        const int narrow = planes == 1 && depth <= 256 ? random_int(0, 2) : 0; /* 256 * 2^15 * 2^7 + 2^16 is less than 2^31 */
        p.x_zero = random_int(0, 1) ? 0 : narrow ? random_int(-99, 99) : random_int(-32768, 32767);
        fill(x, -32768, 32767);
        if (planes == 1)
            fill(w, -128, 127);
        else
            fill(w, -32768, 32767);
        if (narrow)
            for (int i = 0; i < MAX; i++)
                x[i] = (int16_t)(x[i] / 2);
        for (int j = 0; j < COLUMNS; j++) {
            bias[j] = narrow == 1 ? random_int(-65536, 65535) : random_int(-65536, 65535) * ((int64_t)1 << random_int(0, 33));
            multiplier[j] = (float)random_int(1, 1 << 20) * (random_int(0, 7) ? 1e-12f : 1e-3f);
        }
        pack(p.n, depth, planes, narrow);
        static _Alignas(64) unsigned char want[1 << 15], got[sizeof want];
        memset(want, 0xA5, sizeof want), memset(got, 0xA5, sizeof got);
        const int32_t blocks = (p.n + p.block_columns - 1) / p.block_columns;
        const int32_t items = (p.rows + p.block_rows - 1) / p.block_rows * blocks, cut = items ? random_int(0, items) : 0;
        void *args[5] = {x, w, bias, multiplier, want};
        ref->call(&p, args, 0, items);
        args[1] = strncmp(k->isa->name, "avx", 3) ? (void *)w : packed, args[4] = got; /* others take them as `ref` does */
        k->call(&p, args, cut, items);
        k->call(&p, args, 0, cut);
        expect_equal(k, want, got, sizeof want, 0);
    }
}
TESTED_BY(linear_s16, test_linear_s16)
TESTED_BY(linear_s16_f32, test_linear_s16)
TESTED_BY(linear_s16_s8, test_linear_s16)

/* Parameters of requantize for an output of `bytes`. */
static lb_requantize_s8_params some_requantize(int32_t bytes, int32_t zeros) {
    const int32_t half = bytes == 1 ? 128 : 32768;
    lb_requantize_s8_params p = {.multiplier = (float)random_int(1, 1 << 20) * 1e-5f, .x_zero = random_int(-zeros, zeros - 1)};
    p.lo = random_int(-half, 0), p.hi = random_int(0, half - 1), p.y_zero = random_int(p.lo, p.hi);
    return p;
}

static void test_requantize_wide(const lb_kernel *ref, const lb_kernel *k) {
    const int32_t from = strcmp(k->contract->args[0].type, "int8_t") == 0 ? 1 : 2;
    const int32_t to = strcmp(k->contract->args[1].type, "int8_t") == 0 ? 1 : 2;
    for (int32_t n = 0; n < 100; n++) {
        fill(x, -32768, 32767);
        const lb_requantize_s8_params p = some_requantize(to, from == 1 ? 128 : 32768);
        void *args[2] = {x, NULL};
        expect_same(ref, k, &p, args, 1, (size_t)(n * to), 2, n);
    }
}
TESTED_BY(requantize_s16, test_requantize_wide)
TESTED_BY(requantize_s16_s8, test_requantize_wide)
TESTED_BY(requantize_s8_s16, test_requantize_wide)

KERNEL_TEST(quantize_f32_s16) {
    static const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, FLT_MAX, -FLT_MAX, 0.5f, -0.5f, 1.5f, 32767.5f, -32768.5f};
    for (int32_t n = 0; n < 100; n++) {
        const lb_requantize_s8_params r = some_requantize(2, 1);
        const lb_quantize_f32_s16_params p = {n % 3 ? 0.01f : 1.0f, r.y_zero, r.lo, r.hi};
        for (int i = 0; i < 128; i++)
            reals[i] = random_int(0, 3) ? (float)random_int(-400000, 400000) * 1e-3f : special[random_int(0, 11)];
        void *args[2] = {reals + 1, NULL};
        expect_same(ref, k, &p, args, 1, (size_t)(2 * n), 2, n);
    }
}

KERNEL_TEST(dequantize_s16_f32) {
    for (int32_t n = 0; n < 100; n++) {
        fill(x, -32768, 32767);
        const lb_dequantize_s16_f32_params p = {0.0173f, random_int(-32768, 32767)};
        void *args[2] = {x + 1, NULL};
        expect_same(ref, k, &p, args, 1, (size_t)(4 * n), 4, n);
    }
}

KERNEL_TEST(add_s16) {
    for (int round = 0; round < 200; round++) {
        fill(x, -32768, 32767), fill(y, -32768, 32767);
        lb_add_s16_params p = {.a_multiplier = (float)random_int(-99, 99) * 0.01f, .b_multiplier = (float)random_int(-99, 99) * 0.01f};
        p.offset = (float)random_int(-999, 999), p.lo = random_int(-32768, 0), p.hi = random_int(0, 32767);
        int32_t items = 1, a = 1, b = 1;
        for (int i = 3; i >= 0; i--) {
            p.shape[i] = random_int(1, i == 3 ? 70 : 4);
            const int repeat = random_int(0, 5);
            p.a_stride[i] = repeat == 0 ? 0 : a, p.b_stride[i] = repeat == 1 ? 0 : b;
            items *= p.shape[i], a *= repeat == 0 ? 1 : p.shape[i], b *= repeat == 1 ? 1 : p.shape[i];
        }
        void *args[3] = {x, y, NULL};
        expect_same(ref, k, &p, args, 2, (size_t)(2 * items), 2, items);
    }
}
