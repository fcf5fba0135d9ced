/* Weights that become floats: every element by its formula, and layers on them against layers on the floats. */
#include "test_float.h"
#include "test_support.h"

#include <string.h>

enum { MOST = 700 };

static int8_t w[MOST];
static uint8_t nibbles[MOST];
static float scales[MOST], want[MOST], got[MOST];

static void fill(int32_t n, int32_t lo, int32_t hi) {
    memset(nibbles, 0, sizeof nibbles);
    for (int32_t i = 0; i < n; i++) {
        w[i] = (int8_t)random_int(lo, hi);
        nibbles[i / 2] = (uint8_t)(nibbles[i / 2] | (w[i] & 15) << i % 2 * 4);
    }
    fill_floats(scales, MOST);
}

static void expect_expanded(const lb_kernel *k, void *weights, int32_t lo, int32_t hi) {
    for (int round = 0; round < 200; round++) {
        lb_expand_s8_f32_params p = {.run = random_int(1, 40), .inner = round % 3 ? 1 : 16};
        const int32_t n = random_int(0, MOST - 1), cut = random_int(0, n);
        fill(n, lo, hi);
        for (int32_t i = 0; i < MOST; i++)
            want[i] = i < n ? (float)w[i] * scales[i / (p.inner * p.run) * p.inner + i % p.inner] : 77.0f, got[i] = 77.0f;
        void *args[3] = {weights, scales, got};
        k->call(&p, args, cut, n);
        k->call(&p, args, 0, cut);
        expect_equal(k, want, got, sizeof want, 0);
    }
}

KERNEL_TEST(expand_s8_f32) {
    (void)ref;
    expect_expanded(k, w, -128, 127);
}

KERNEL_TEST(expand_w4_f32) {
    (void)ref;
    expect_expanded(k, nibbles, -8, 7);
}

KERNEL_TEST(linear_w4_f32) {
    (void)ref;
    static float x[MOST], bias[8], most[MOST];
    static uint8_t packed[MOST];
    for (int round = 0; round < 200; round++) {
        lb_linear_w4_f32_params p = {.rows = random_int(0, 5), .k = random_int(0, 70), .n = random_int(1, 7), .segment = random_int(1, 40)};
        p.lo = round % 2 ? -1.0f : -0x1p120f, p.hi = round % 2 ? 1.5f : 0x1p120f;
        const int32_t segments = p.k > p.segment ? (p.k + p.segment - 1) / p.segment : 1, row_bytes = p.k / 2 + p.k % 2;
        fill(p.n * p.k, -8, 7), fill_floats(x, MOST), fill_floats(bias, 8);
        memset(packed, 0, sizeof packed);
        for (int32_t j = 0; j < p.n; j++)
            for (int32_t i = 0; i < p.k; i++)
                packed[j * row_bytes + i / 2] = (uint8_t)(packed[j * row_bytes + i / 2] | (w[j * p.k + i] & 15) << i % 2 * 4);
        for (int32_t i = 0; i < MOST; i++)
            want[i] = got[i] = 77.0f, most[i] = 0.0f;
        for (int32_t r = 0; r < p.rows; r++)
            for (int32_t j = 0; j < p.n; j++) {
                double sum = (double)bias[j], sizes = sum < 0 ? -sum : sum;
                for (int32_t i = 0; i < p.k; i++) {
                    const double v = (double)x[r * p.k + i] * w[j * p.k + i] * (double)scales[j * segments + i / p.segment];
                    sum += v, sizes += v < 0 ? -v : v;
                }
                const float v = (float)sum;
                want[r * p.n + j] = v < p.lo ? p.lo : v > p.hi ? p.hi : v, most[r * p.n + j] = (float)sizes;
            }
        const int32_t cut = random_int(0, p.rows);
        void *args[5] = {x, packed, scales, bias, got};
        k->call(&p, args, cut, p.rows);
        k->call(&p, args, 0, cut);
        expect(close_floats(want, got, most, MOST, (float)(p.k + 4) * 0x1p-22f), "linear_w4_f32 sums what it says");
    }
}
