/* Rows quantized at run time: every instruction set against `ref`, and `ref` against what its contract says of single rows. */
#include "base/numerics.h"
#include "test_support.h"

#include <math.h>
#include <string.h>

enum { MAX_SIZE = 100, MAX_ROWS = 5 };

static float real(int style) {
    const float v = (float)random_int(-100000, 100000) * 1e-4f;
    if (style == 0)
        return 0.0f;
    if (style == 1) /* ties: multiples of half a step of 1/8 */
        return (float)random_int(-254, 254) * 0.0625f;
    if (style == 2 && random_int(0, 9) == 0)
        return (float[]){NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MIN}[random_int(0, 4)];
    if (style == 5) /* halves of steps of 0.37 / 127, nearly */
        return (float)(2 * random_int(-127, 127) + 1) * (0.37f / 254.0f);
    return style == 3 ? v * 1e-42f : v;
}

KERNEL_TEST(quantize_rows_f32_s8) {
    static float x[MAX_ROWS * MAX_SIZE + 1], scales[2][MAX_ROWS + 1];
    static int8_t out[2][MAX_ROWS * MAX_SIZE + 64];
    for (int32_t size = 0; size <= MAX_SIZE; size++)
        for (int style = 0; style < 6; style++) {
            const lb_quantize_rows_f32_s8_params p = {size};
            const int32_t rows = random_int(1, MAX_ROWS), cut = random_int(0, rows);
            for (int32_t i = 0; i < rows * size; i++)
                x[i + 1] = style == 5 && i % size == size / 2 ? 0.37f : real(style);
            memset(out, 0x5A, sizeof out), memset(scales, 0, sizeof scales);
            const lb_kernel *kernels[2] = {ref, k};
            for (int i = 0; i < 2; i++) {
                void *args[3] = {x + 1, out[i] + 1, scales[i]};
                kernels[i]->call(&p, args, cut, rows);
                kernels[i]->call(&p, args, 0, cut);
            }
            expect_equal(k, out[0], out[1], sizeof out[0], 1);
            expect_equal(k, scales[0], scales[1], sizeof scales[0], 0);
        }
    const lb_quantize_rows_f32_s8_params p = {4};
    const float rows[12] = {1.0f, -2.0f, NAN, 0.5f, 0.0f, NAN, -0.0f, 0.0f, 3.0f, -INFINITY, 0.5f, -200.0f};
    const int8_t want[12] = {64, -127, 0, 32, 0, 0, 0, 0, 3, -127, 0, -127};
    memcpy(x, rows, sizeof rows);
    void *args[3] = {x, out[0], scales[0]};
    k->call(&p, args, 0, 3);
    expect_equal(k, want, out[0], 12, 0);
    expect(scales[0][0] == 2.0f / 127.0f, "the scale of a row is its largest magnitude by 127");
    expect(scales[0][1] == 1.0f && scales[0][2] == 1.0f, "a row of zeros, or with an infinity, has the scale 1");
}

KERNEL_TEST(scale_rows_f32) {
    static float acc[MAX_ROWS * MAX_SIZE], x_scales[MAX_ROWS], scales[MAX_SIZE], bias[MAX_SIZE];
    for (int32_t n = 0; n <= MAX_SIZE; n++) {
        const lb_scale_rows_f32_params p = {n};
        const int32_t rows = random_int(0, MAX_ROWS);
        for (int32_t i = 0; i < rows * n; i++)
            acc[i] = (float)random_int(-(1 << 24), 1 << 24);
        for (int32_t i = 0; i < n; i++)
            scales[i] = (float)random_int(1, 1 << 20) * 1e-7f, bias[i] = (float)random_int(-99, 99) * 0.3f;
        for (int32_t i = 0; i < rows; i++)
            x_scales[i] = (float)random_int(1, 1 << 20) * 1e-7f;
        void *args[5] = {acc, x_scales, scales, bias, NULL};
        expect_same(ref, k, &p, args, 4, sizeof(float) * (size_t)(rows * n), 4, rows);
    }
}

/* Against the contract's words, operation by operation. */
KERNEL_TEST(linear_s8_blocks_f32) {
    enum { MOST_K = 40, MOST_N = 9, MOST_ROWS = 4 };
    static int8_t a[MOST_ROWS * MOST_K], w[MOST_N * MOST_K];
    static float x_scales[MOST_ROWS], scales[MOST_N * MOST_K], bias[MOST_N], want[MOST_ROWS * MOST_N], got[MOST_ROWS * MOST_N];
    (void)ref;
    for (int round = 0; round < 200; round++) {
        const lb_linear_s8_blocks_f32_params p = {random_int(0, MOST_K), random_int(0, MOST_N), random_int(1, MOST_K),
                                                  random_int(-128, 127)};
        const int32_t rows = random_int(0, MOST_ROWS), segments = p.k > p.segment ? (p.k + p.segment - 1) / p.segment : 1;
        for (int32_t i = 0; i < rows * p.k; i++)
            a[i] = (int8_t)random_int(-128, 127);
        for (int32_t i = 0; i < p.n * p.k; i++)
            w[i] = (int8_t)random_int(-128, 127);
        for (int32_t i = 0; i < MOST_N * MOST_K; i++)
            scales[i] = (float)random_int(1, 1 << 20) * 1e-7f;
        for (int32_t i = 0; i < MOST_N; i++)
            bias[i] = (float)random_int(-99, 99) * 0.3f;
        for (int32_t i = 0; i < MOST_ROWS; i++)
            x_scales[i] = (float)random_int(1, 1 << 20) * 1e-7f;
        for (int32_t i = 0; i < MOST_ROWS * MOST_N; i++)
            want[i] = got[i] = -7.0f;
        for (int32_t i = 0; i < rows; i++)
            for (int32_t j = 0; j < p.n; j++) {
                float t = 0.0f;
                for (int32_t s = 0; s < segments; s++) {
                    int32_t sum = 0;
                    for (int32_t l = s * p.segment; l < p.k && l < (s + 1) * p.segment; l++)
                        sum += (a[i * p.k + l] - p.x_zero) * w[j * p.k + l];
                    const float scale = scales[j * segments + s] * (segments == 1 ? x_scales[i] : 1.0f), part = (float)sum * scale;
                    t = t + part;
                }
                const float scaled = segments == 1 ? t : t * x_scales[i];
                want[i * p.n + j] = scaled + bias[j];
            }
        void *args[6] = {a, x_scales, w, scales, bias, got};
        k->call(&p, args, 0, rows);
        expect_equal(k, want, got, sizeof want, 0);
    }
}
