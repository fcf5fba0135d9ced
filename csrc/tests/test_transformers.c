/* Kernels of transformers, every instruction set against `ref`: sizes around the tiles, extremes, masks, strides, and items in two parts.
 * tests/runtime/test_transformers.py compares `ref` with the interpreter. */
#include "base/numerics.h"
#include "test_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX = 1 << 15, VECTOR = 4096 };

static _Alignas(64) int16_t x16[MAX], y16[MAX];
static _Alignas(64) int8_t x8[MAX], y8[MAX];
static float gain[VECTOR], offset[VECTOR], floats[MAX];
static int32_t table32[1 << 16];
static int16_t table16[1 << 16];
static _Alignas(64) char scratch[1 << 20];

static void fill(void) {
    const int extremes = random_int(0, 4) == 0;
    int8_t *const bytes[] = {x8, y8};
    int16_t *const words[] = {x16, y16};
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < MAX; i++) {
            bytes[t][i] = (int8_t)(extremes ? (random_u32() & 1 ? 127 : -128) : random_int(-128, 127));
            words[t][i] = (int16_t)(extremes ? (random_u32() & 1 ? 32767 : -32768) : random_int(-32768, 32767));
        }
    for (int i = 0; i < MAX; i++) {
        floats[i] = random_int(0, 9) ? (float)random_int(-3000, 0) * 1e-3f : -INFINITY;
    }
    floats[random_int(0, 99)] = NAN;
    for (int i = 0; i < VECTOR; i++) {
        gain[i] = (float)random_int(-1000, 1000) * 0.1f;
        offset[i] = (float)random_int(-1000, 1000) * 0.1f;
    }
}

/* ---- norms -----------------------------------------------------------------------------------------------------------------------------
 */

static void test_norm(const lb_kernel *ref, const lb_kernel *k, int wide) {
    static const int32_t lengths[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 384, 1009};
    for (int round = 0; round < 500; round++) {
        fill();
        const int32_t channels = random_int(0, 1) ? 1 : random_int(1, 3), length = PICK(lengths), sets = random_int(1, 4);
        const int32_t out_bytes = width(), half = wide ? 32768 : 128;
        lb_norm_s8_params p = {.n = channels * length, .run = channels > 1 || random_int(0, 1) ? length : 1, .out_bytes = out_bytes};
        p.cycle = random_int(1, 2), p.centered = random_int(0, 1), p.shifted = random_int(0, 1);
        p.x_zero = random_int(0, 1) ? 0 : random_int(-half, half - 1), p.eps = random_int(0, 3) ? (float)random_int(0, 100) * 0.01f : 0.0f;
        clamp_of(out_bytes, &p.y_zero, &p.lo, &p.hi);
        if (round % 10 == 0)
            memset(x8, 5, sizeof x8), memset(x16, 5, sizeof x16); /* no variance */
        void *args[4] = {wide ? (void *)(x16 + 1) : x8 + 1, gain, offset, NULL};
        expect_same(ref, k, &p, args, 3, (size_t)(sets * p.n * out_bytes), 4, sets);
    }
}

KERNEL_TEST(norm_s8) {
    test_norm(ref, k, 0);
}

KERNEL_TEST(norm_s16) {
    test_norm(ref, k, 1);
}

KERNEL_TEST(scale_shift) {
    for (int round = 0; round < 100; round++) {
        fill();
        lb_scale_shift_params p = {random_int(1, 5), random_int(1, 70), random_int(1, 2), width(), random_int(-9, 9), 0, 0, 0};
        clamp_of(p.out_bytes, &p.y_zero, &p.lo, &p.hi);
        void *args[4] = {x16, gain, offset, NULL};
        expect_same(ref, k, &p, args, 3, (size_t)(2 * p.channels * p.inner * p.out_bytes), 4, 2 * p.channels);
    }
}

/* ---- softmax ---------------------------------------------------------------------------------------------------------------------------
 */

KERNEL_TEST(softmax_int) {
    for (int round = 0; round < 200; round++) {
        fill();
        const int32_t n = round % 4 ? random_int(1, 70) : random_int(100, 700);
        lb_softmax_int_params p = {.n = n, .inner = random_int(0, 1) || n > 70 ? 1 : random_int(1, 9), .logarithm = random_int(0, 1)};
        p.x_bytes = random_int(1, 2), p.out_bytes = width(), p.multiplier = (float)random_int(1, 300), p.y_scale = 0.07f;
        clamp_of(p.out_bytes, &p.y_zero, &p.lo, &p.hi);
        for (int i = 0; i < 1 << 16; i++)
            table32[i] = (round % 3 ? 1 << 23 : 1 << 30) / (1 + i / (p.x_bytes == 1 ? 8 : 2048));
        void *args[3] = {x16, table32, NULL};
        expect_same(ref, k, &p, args, 2, (size_t)(3 * p.n * p.inner * p.out_bytes), 4, 3 * p.inner);
    }
}

/* ---- elementwise, sums, tables, lookups ------------------------------------------------------------------------------------------------
 */

static void test_scaled_int(const lb_kernel *ref, const lb_kernel *k) {
    for (int round = 0; round < 300; round++) {
        fill();
        lb_mul_int_params p = {.multiplier = (float)random_int(1, 1000) * 1e-4f, .a_bytes = random_int(1, 2), .b_bytes = random_int(1, 2)};
        p.out_bytes = width();
        int32_t items = 1, a = 1, b = 1;
        for (int i = 3; i >= 0; i--) {
            p.shape[i] = random_int(1, i == 3 ? 70 : 4);
            const int repeat = random_int(0, 5);
            p.a_stride[i] = repeat == 0 ? 0 : a, p.b_stride[i] = repeat == 1 ? 0 : b;
            items *= p.shape[i], a *= repeat == 0 ? 1 : p.shape[i], b *= repeat == 1 ? 1 : p.shape[i];
        }
        const int32_t far = round % 3 ? 9 : 32768; /* products of far zero points have more than 32 bits */
        p.a_zero = random_int(-far, far - 1), p.b_zero = random_int(-far, far - 1);
        clamp_of(p.out_bytes, &p.y_zero, &p.lo, &p.hi);
        void *args[3] = {x16, y16, NULL};
        expect_same(ref, k, &p, args, 2, (size_t)(items * p.out_bytes), 4, items);
    }
}
TESTED_BY(div_int, test_scaled_int)
TESTED_BY(mul_int, test_scaled_int)

KERNEL_TEST(add_int) {
    (void)ref;
    static float want[1024], got[1024];
    for (int round = 0; round < 300; round++) {
        fill();
        const int32_t wide = random_int(1, 70), all = 6 * wide;
        lb_add_int_params p = {
            .shape = {1, 2, 3, wide}, .a_stride = {0, 3 * wide, wide, 1}, .b_stride = {0, 0, 1, 0}, .lo = -128, .hi = 127};
        if (round % 3 == 0)
            p.b_stride[1] = 3 * wide, p.b_stride[2] = wide, p.b_stride[3] = 1;
        p.a_multiplier = (float)random_int(-999, 999) * 1e-3f, p.b_multiplier = (float)random_int(-999, 999) * 1e-3f;
        p.offset = (float)random_int(-999, 999) * 1e-2f, p.a_bytes = random_int(1, 2), p.b_bytes = random_int(1, 2);
        p.out_bytes = width();
        memset(want, 0, sizeof want), memset(got, 0, sizeof got);
        for (int32_t i = 0; i < all; i++) {
            const int32_t u = p.a_bytes == 1 ? ((const int8_t *)x16)[i] : x16[i], j = round % 3 == 0 ? i : i / wide % 3;
            const int32_t v = p.b_bytes == 1 ? ((const int8_t *)y16)[j] : y16[j];
            const float left = (float)u * p.a_multiplier, right = (float)v * p.b_multiplier, sum = (left + p.offset) + right;
            if (p.out_bytes == 4)
                want[i] = sum;
            else if (p.out_bytes == 2)
                ((int16_t *)want)[i] = (int16_t)lb_round_clamp(sum, 0, p.lo, p.hi);
            else
                ((int8_t *)want)[i] = (int8_t)lb_round_clamp(sum, 0, p.lo, p.hi);
        }
        void *args[3] = {x16, y16, got};
        const int32_t cut = random_int(0, all);
        k->call(&p, args, cut, all);
        k->call(&p, args, 0, cut);
        expect_equal(k, want, got, sizeof want, 0);
    }
}

KERNEL_TEST(sum_int) {
    for (int round = 0; round < 100; round++) {
        fill();
        lb_sum_int_params p = {random_int(0, 70), random_int(1, 40), random_int(1, 2), width(), random_int(-9, 9), 0, 0, 0, 0.013f};
        clamp_of(p.out_bytes, &p.y_zero, &p.lo, &p.hi);
        void *args[3] = {x16, NULL, scratch};
        expect_same(ref, k, &p, args, 1, (size_t)(3 * p.inner * p.out_bytes), 4, 3);
    }
}

KERNEL_TEST(table_s16) {
    for (int i = 0; i < 1 << 16; i++)
        table16[i] = (int16_t)random_u32();
    for (int32_t n = 0; n < 80; n++) {
        fill();
        const lb_table_s16_params p = {1 + n % 2};
        void *args[3] = {x16 + 1, table16, NULL};
        expect_same(ref, k, &p, args, 2, (size_t)(n * p.out_bytes), 2, n);
    }
}

#ifdef __linux__ /* boards have no room for it */
/* More rows than are done at once, each as long as said, against plain loops; items in three parts, the last one first. */
static void gather_many(const lb_kernel *k, int32_t rows, int32_t count, int32_t bytes) {
    enum { SIZE = 5 };
    static uint8_t from[1 << 17], got[1 << 17], want[sizeof got];
    static int32_t index[1 << 10];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (uint8_t)random_u32();
    for (int32_t i = 0; i < count; i++)
        index[i] = i && random_int(0, 2) ? (index[i - 1] + 1) % SIZE : random_int(0, SIZE - 1);
    for (int32_t i = 0; i < rows * count; i++)
        memcpy(want + i * bytes, from + (i / count * SIZE + index[i % count]) * bytes, (size_t)bytes);
    const lb_gather_params p = {SIZE, count, bytes, 4};
    void *args[3] = {from, index, got};
    const int32_t items = rows * count, cut = random_int(0, items), next = random_int(cut, items);
    memset(got, 0, sizeof got);
    k->call(&p, args, next, items);
    k->call(&p, args, cut, next);
    k->call(&p, args, 0, cut);
    expect_equal(k, want, got, (size_t)(items * bytes), 0);
}
#endif

KERNEL_TEST(gather) {
#ifdef __linux__
    for (int round = 0; round < 4; round++) {
        gather_many(k, 130, 1000, 1); /* 65 of them at once */
        gather_many(k, 3, 640, 60);
        gather_many(k, 1, 4, 20000);
    }
#endif
    static int64_t index64[64];
    static int32_t index32[64];
    for (int round = 0; round < 100; round++) {
        fill();
        const lb_gather_params p = {random_int(1, 30), random_int(1, 64), round % 3 ? random_int(1, 50) : 4, round % 2 ? 4 : 8};
        for (int i = 0; i < 64; i++) {
            index32[i] = random_int(-p.size - 2, p.size + 1); /* some are outside: taken for the nearest */
            if (i && random_int(0, round % 5))
                index32[i] = index32[i - 1] + 1; /* runs, which go on over the end and from -1 to 0 */
            index64[i] = index32[i];
        }
        void *args[3] = {x8, round % 2 ? (void *)index32 : (void *)index64, NULL};
        expect_same(ref, k, &p, args, 2, (size_t)(3 * p.count * p.bytes), 1, 3 * p.count);
    }
}

KERNEL_TEST(cast_int_f32) {
    for (int32_t n = 0; n < 80; n++) {
        fill();
        const lb_cast_int_f32_params p = {1 << n % 4};
        void *args[2] = {x16, NULL};
        expect_same(ref, k, &p, args, 1, (size_t)(4 * n), 4, n);
    }
}
