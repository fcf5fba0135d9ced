/* Functions, norms, softmax, attention and products of floats, every instruction set against `ref`; and `ref` against known values. */
#include "base/scalar_f32.h"
#include "base/math_f32.h"
#include "test_float.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static _Alignas(64) float x[MAX_FLOATS], y[MAX_FLOATS], z[MAX_FLOATS], want[MAX_FLOATS], got[MAX_FLOATS + 64], sizes[MAX_FLOATS + 64];
static _Alignas(64) unsigned char scratch[1 << 18];

static void both(const lb_kernel *ref, const lb_kernel *k, const void *p, void **args, int output, int32_t items) {
    memset(want, 0x5A, sizeof want), memset(got, 0x5A, sizeof got);
    call_both(ref, k, p, args, output, items, want, got);
}

static void test_unary_f32(const lb_kernel *ref, const lb_kernel *k) {
    static const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN,   FLT_MAX, -FLT_MAX, FLT_MIN, 1e-40f,    -1e-40f,
                                    0.5f, 1.5f,  2.5f,     -0.5f,     -1.5f, 88.8f,   -104,     8388607, 4194305.5f};
    const int32_t count = sizeof special / sizeof *special;
    for (int32_t n = 0; n < 200; n += n < 40 ? 1 : 37) {
        const lb_exp_f32_params p = {0.2f, 0.5f};
        for (int32_t i = 0; i < n + 1; i++)
            x[i] = random_int(0, 2) ? random_float() : special[random_u32() % (uint32_t)count];
        void *args[2] = {x + 1};
        both(ref, k, &p, args, 1, n);
        for (int32_t i = 0; i < n + 64; i++) /* 1 + erf(x) cancels for x below 0: what is left is as exact as x */
            sizes[i] = i < n ? lb_absf(want[i]) + lb_minf(lb_absf(x[i + 1]), 1.0f) * 0x1p-2f : 0.0f;
        expect(close_floats(want, got, sizes, n + 64, 0x1p-20f), k->contract->name);
    }
}
TESTED_BY(abs_f32, test_unary_f32)
TESTED_BY(ceil_f32, test_unary_f32)
TESTED_BY(elu_f32, test_unary_f32)
TESTED_BY(erf_f32, test_unary_f32)
TESTED_BY(floor_f32, test_unary_f32)
TESTED_BY(gelu_f32, test_unary_f32)
TESTED_BY(gelu_tanh_f32, test_unary_f32)
TESTED_BY(hardsigmoid_f32, test_unary_f32)
TESTED_BY(hardswish_f32, test_unary_f32)
TESTED_BY(leaky_relu_f32, test_unary_f32)
TESTED_BY(log_f32, test_unary_f32)
TESTED_BY(mish_f32, test_unary_f32)
TESTED_BY(neg_f32, test_unary_f32)
TESTED_BY(reciprocal_f32, test_unary_f32)
TESTED_BY(round_f32, test_unary_f32)
TESTED_BY(sigmoid_f32, test_unary_f32)
TESTED_BY(silu_f32, test_unary_f32)
TESTED_BY(softplus_f32, test_unary_f32)
TESTED_BY(sqrt_f32, test_unary_f32)
TESTED_BY(tanh_f32, test_unary_f32)

static void expect_near(float have, float known, const char *claim) {
    expect(lb_absf(have - known) <= 3 * 0x1p-23f * lb_absf(known), claim);
}

/* `ref` of exp is asked for what is known of all. */
KERNEL_TEST(exp_f32) {
    test_unary_f32(ref, k);
    expect_near(lb_expf(1.0f), 2.71828183f, "e");
    expect_near(lb_expf(-100.0f) * 0x1p100f, 3.72007598e-44f * 0x1p100f, "exp has subnormals");
    expect(lb_expf(-0.0f) == 1.0f && lb_expf(89.0f) == INFINITY && lb_expf(-INFINITY) == 0.0f && lb_expf(NAN) != lb_expf(NAN), "exp ends");
    expect_near(lb_logf(10.0f), 2.30258509f, "ln 10");
    expect_near(lb_logf(1e-40f), -92.1034037f, "ln of a subnormal");
    expect(lb_logf(0.0f) == -INFINITY && lb_logf(INFINITY) == INFINITY && lb_logf(-1.0f) != lb_logf(-1.0f) && lb_logf(1.0f) == 0.0f,
           "log ends");
    expect_near(lb_erff(0.5f), 0.520499878f, "erf 0.5");
    expect_near(lb_erff(-1.5f), -0.966105146f, "erf -1.5");
    expect(lb_erff(5.0f) == 1.0f && lb_erff(-INFINITY) == -1.0f, "erf ends");
    expect_near(lb_tanhf(0.1f), 0.0996679946f, "tanh 0.1");
    expect_near(lb_tanhf(-2.0f), -0.96402758f, "tanh -2");
    expect_near(lb_sigmoidf(-3.0f), 0.0474258732f, "sigmoid -3");
    expect_near(lb_sqrtf(2.0f), 1.41421356f, "sqrt 2");
    expect(lb_roundf(2.5f) == 2.0f && lb_roundf(-3.5f) == -4.0f && lb_floorf(-0.5f) == -1.0f && lb_ceilf(1.2f) == 2.0f, "rounding");
}

KERNEL_TEST(softmax_f32) {
    static const int32_t ns[] = {1, 2, 7, 8, 9, 16, 40, 65}, inners[] = {1, 2, 8, 11};
    for (int32_t i = 0; i < 8; i++)
        for (int32_t j = 0; j < 4; j++)
            for (int32_t logarithm = 0; logarithm < 2; logarithm++) {
                const lb_softmax_f32_params p = {3, ns[i], inners[j], logarithm};
                const int32_t n = 3 * p.n * p.inner;
                fill_floats(x, n + 1);
                if (i % 3 == 1)
                    x[2] = -INFINITY;
                if (i % 3 == 2)
                    x[2] = NAN;
                void *args[2] = {x + 1};
                both(ref, k, &p, args, 1, p.outer);
                for (int32_t s = 0; s < n + 64; s++)
                    sizes[s] = s >= n ? 0.0f : logarithm ? 512.0f : 1.0f;
                expect(close_floats(want, got, sizes, n + 64, (float)(p.n / 8 + 16) * 0x1p-22f), "softmax_f32");
            }
}

KERNEL_TEST(layer_norm_f32) {
    static const int32_t ns[] = {1, 5, 8, 31, 32, 33, 100};
    for (int32_t i = 0; i < 7; i++)
        for (int32_t centered = 0; centered < 2; centered++) {
            const lb_layer_norm_f32_params p = {4, ns[i], centered, 1e-5f};
            fill_floats(x, 4 * p.n + 1), fill_floats(y, p.n), fill_floats(z, p.n);
            void *args[4] = {x + 1, y, z};
            both(ref, k, &p, args, 3, p.rows);
            for (int32_t s = 0; s < 4 * p.n + 64; s++)
                sizes[s] = s < 4 * p.n ? 10.0f * lb_absf(y[s % p.n]) + lb_absf(z[s % p.n]) : 0.0f;
            expect(close_floats(want, got, sizes, 4 * p.n + 64, (float)(p.n / 8 + 16) * 0x1p-22f), "layer_norm_f32");
        }
}

KERNEL_TEST(group_norm_f32) {
    for (int round = 0; round < 40; round++) {
        const lb_group_norm_f32_params p = {2 * 3, 3, random_int(1, 4), random_int(1, 20), 1e-5f};
        const int32_t row = p.channels * p.spatial, n = p.rows * row;
        fill_floats(x, n + 1), fill_floats(y, 12), fill_floats(z, 12);
        void *args[4] = {x + 1, y, z};
        both(ref, k, &p, args, 3, p.rows);
        for (int32_t s = 0; s < n + 64; s++)
            sizes[s] = s < n ? 2048.0f : 0.0f;
        expect(close_floats(want, got, sizes, n + 64, (float)(row / 8 + 16) * 0x1p-22f), "group_norm_f32");
    }
}

KERNEL_TEST(matmul_f32) {
    for (int round = 0; round < 150; round++) {
        lb_matmul_f32_params p = {.shape = {1, random_int(1, 2), random_int(1, 3)}, .m = random_int(1, 31), .k = random_int(0, 20)};
        p.n = random_int(1, 70), p.block = random_int(1, 31);
        p.a_row = p.k, p.a_batch[2] = p.m * p.k, p.a_batch[1] = round % 2 ? 0 : p.shape[2] * p.m * p.k;
        p.b_row = round % 3 ? p.n : 1, p.b_column = round % 3 ? 1 : p.k, p.b_batch[2] = p.k * p.n;
        fill_floats(x, 6 * p.m * p.k + 1), fill_floats(y, 6 * p.n * p.k + 1);
        void *args[4] = {x + 1, y + 1, NULL, scratch};
        const int32_t pairs = p.shape[1] * p.shape[2], n = pairs * p.m * p.n;
        both(ref, k, &p, args, 2, pairs * ((p.m + p.block - 1) / p.block));
        for (int32_t s = 0; s < n + 64; s++)
            sizes[s] = s < n ? (float)p.k * 0x1p16f : 0.0f; /* inputs are below 2^8 */
        expect(close_floats(want, got, sizes, n + 64, (float)(p.k + 2) * 0x1p-23f), "matmul_f32");
    }
}

KERNEL_TEST(attention_f32) {
    static uint8_t bytes[4096];
    for (int round = 0; round < 120; round++) {
        lb_attention_f32_params p = {.outer = random_int(1, 2), .inner = random_int(1, 3), .rows = random_int(1, 20)};
        p.keys = round % 4 ? random_int(1, 40) : p.rows, p.depth = random_int(1, 20), p.width = random_int(1, 36),
        p.block = random_int(1, 20);
        p.causal = round % 4 == 0, p.mask_kind = round % 3, p.scale = 0.25f;
        const int32_t rows[] = {p.rows, p.keys, p.keys, p.rows}, width[] = {p.depth, p.depth, p.width, p.width};
        int32_t *strides[] = {p.q_stride, p.k_stride, p.v_stride, p.out_stride};
        for (int i = 0; i < 4; i++) { /* (outer, row, inner, width): heads side by side */
            strides[i][1] = width[i], strides[i][2] = width[i] * p.inner, strides[i][0] = rows[i] * strides[i][2];
        }
        p.mask_stride[3] = 1, p.mask_stride[2] = round % 2 ? p.keys : 0, p.mask_stride[0] = p.rows * p.keys;
        for (int32_t i = 0; i < 8192; i++)
            x[i] = (float)random_int(-100, 100) * 0.02f, y[i] = (float)random_int(-100, 100) * 0.02f,
            z[i] = (float)random_int(-50, 50) * 0.1f;
        for (int32_t i = 0; i < 4096; i++)
            bytes[i] = random_int(0, 3) > 0;
        void *args[6] = {x, y, y + 5, p.mask_kind == 2 ? (void *)bytes : (void *)z, NULL, scratch};
        const int32_t n = p.outer * p.rows * p.inner * p.width, items = p.outer * p.inner * ((p.rows + p.block - 1) / p.block);
        both(ref, k, &p, args, 4, items);
        for (int32_t s = 0; s < n + 64; s++)
            sizes[s] = s < n ? 2.0f * 21.0f : 0.0f;
        expect(close_floats(want, got, sizes, n + 64, (float)(p.depth + p.keys + 16) * 0x1p-22f), "attention_f32");
    }
}

/* ---- images that grow, recurrent layers
 * --------------------------------------------------------------------------------------------------- */

static float *panels(const lb_isa *isa, const float *from, int32_t groups, int32_t n, int32_t k) {
    const int32_t wide = (n + 15) / 16 * 16;
    float *to = aligned_alloc(64, ((size_t)(groups * wide * k) * sizeof *to + 127) / 64 * 64);
    if (!to)
        abort();
    for (int32_t g = 0; g < groups; g++)
        for (int32_t j = 0; j < wide; j++)
            for (int32_t i = 0; i < k; i++)
                if (strcmp(isa->name, "ref") != 0)
                    to[(g * wide + j / 16 * 16) * k + i * 16 + j % 16] = j < n ? from[(g * n + j) * k + i] : 0.0f;
                else if (j < n)
                    to[(g * n + j) * k + i] = from[(g * n + j) * k + i];
    return to;
}

KERNEL_TEST(conv_transpose_f32) {
    for (int round = 0; round < 80; round++) {
        lb_conv_transpose_f32_params p = {.batch = random_int(1, 2), .in_h = random_int(1, 5), .in_w = random_int(1, 6)};
        p.groups = round % 4 ? 1 : 2, p.in_c = random_int(1, 9) * p.groups, p.out_c = random_int(1, 20) * p.groups;
        p.kernel_h = random_int(1, 3), p.kernel_w = random_int(1, 4), p.stride_h = random_int(1, 3), p.stride_w = random_int(1, 3);
        p.pad_h = random_int(-1, 2), p.pad_w = random_int(-1, 2), p.dilation_h = random_int(1, 2), p.dilation_w = random_int(1, 2);
        p.out_h = random_int(1, 9), p.out_w = random_int(1, 14), p.lo = round % 2 ? 0.0f : -INFINITY, p.hi = INFINITY;
        const int32_t depth = p.in_c / p.groups, taps = p.kernel_h * p.kernel_w, n = p.batch * p.out_h * p.out_w * p.out_c;
        fill_floats(x, p.batch * p.in_h * p.in_w * p.in_c), fill_floats(y, p.out_c * taps * depth), fill_floats(z, p.out_c);
        float *moved = malloc(sizeof *moved * (size_t)(p.out_c * taps * depth)); /* taps in the order of their phases */
        if (!moved)
            abort();
        for (int32_t o = 0, to = 0; o < p.out_c; o++)
            for (int32_t a = 0; a < p.stride_h; a++)
                for (int32_t b = 0; b < p.stride_w; b++)
                    for (int32_t i = 0; i < p.kernel_h; i++)
                        for (int32_t j = 0; j < p.kernel_w; j++)
                            for (int32_t d = 0; d < depth && i * p.dilation_h % p.stride_h == a && j * p.dilation_w % p.stride_w == b; d++)
                                moved[to++] = y[(o * taps + i * p.kernel_w + j) * depth + d];
        float *plain = panels(ref->isa, y, p.groups, p.out_c / p.groups, taps * depth);
        float *weights = panels(k->isa, strcmp(k->isa->name, "ref") == 0 ? y : moved, p.groups, p.out_c / p.groups, taps * depth);
        void *args[5] = {x, plain, z, want, scratch};
        memset(want, 0x5A, sizeof want), memset(got, 0x5A, sizeof got);
        ref->call(&p, args, 0, p.batch * p.out_h);
        args[1] = weights, args[3] = got;
        k->call(&p, args, 1, p.batch * p.out_h);
        k->call(&p, args, 0, 1);
        for (int32_t s = 0; s < n + 64; s++)
            sizes[s] = s < n ? (float)(taps * depth) * 0x1p16f : 0.0f;
        expect(close_floats(want, got, sizes, n + 64, (float)(taps * depth + 2) * 0x1p-23f), "conv_transpose_f32");
        free(moved), free(plain), free(weights);
    }
}

KERNEL_TEST(resize_f32) {
    (void)ref;
    const lb_resize_f32_params p = {1, 2, 2, 3, 3, 1, 2, 1};
    const float in[12] = {0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32}, by[6] = {1.0f, 0.0f, 0.5f, 0.5f, 0.25f, 0.75f}, one = 1.0f;
    const int32_t at[6] = {0, 1, 0, 1, 0, 1}, column = 1;
    void *args[6] = {(void *)in, (void *)at, (void *)by, (void *)&column, (void *)&one, got};
    k->call(&p, args, 1, 3);
    k->call(&p, args, 0, 1);
    static const float known[9] = {10, 11, 12, 20, 21, 22, 25, 26, 27};
    expect(memcmp(got, known, sizeof known) == 0, "resize_f32 mixes rows and picks columns");
}

static void test_rnn(const lb_kernel *ref, const lb_kernel *k, int32_t gates) {
    for (int round = 0; round < 30; round++) {
        lb_lstm_f32_params p = {
            .time = random_int(1, 5), .batch = random_int(1, 8), .inputs = random_int(1, 9), .hidden = random_int(1, 19)};
        p.directions = random_int(1, 2), p.backwards = p.directions == 1 && round % 2, p.linear_before_reset = round % 3 > 0;
        p.chunk = random_int(1, 4);
        p.x_stride[1] = p.inputs, p.x_stride[0] = p.batch * p.inputs;
        p.y_stride[2] = p.hidden, p.y_stride[1] = p.batch * p.hidden, p.y_stride[0] = p.directions * p.y_stride[1];
        p.state_stride[1] = p.hidden, p.state_stride[0] = p.batch * p.hidden;
        const int32_t size = gates * p.hidden, states = p.directions * p.batch * p.hidden, n = p.time * states;
        for (int32_t i = 0; i < 8192; i++)
            x[i] = (float)random_int(-100, 100) * 0.01f, y[i] = (float)random_int(-100, 100) * 0.005f, z[i] = x[i] * 0.5f;
        float *h0 = z + 4096, *c0 = z + 6000, *outs[2] = {want, got};
        for (int side = 0; side < 2; side++) {
            const lb_kernel *now = side ? k : ref;
            float *w = panels(now->isa, y, p.directions, size, p.inputs), *r = panels(now->isa, y + 100, p.directions, size, p.hidden);
            memset(outs[side], 0x5A, sizeof want);
            float *last = outs[side] + n, *cells = last + states;
            void *lstm[10] = {x, w, r, z, h0, c0, outs[side], last, cells, scratch}, *gru[8] = {x, w, r, z, h0, outs[side], last, scratch};
            const int32_t items = p.directions * ((p.batch + 5) / 6), cut = random_int(0, items);
            now->call(&p, gates == 4 ? lstm : gru, cut, items);
            now->call(&p, gates == 4 ? lstm : gru, 0, cut);
            free(w), free(r);
        }
        const int32_t all = n + (gates == 4 ? 2 : 1) * states;
        for (int32_t s = 0; s < all + 64; s++)
            sizes[s] = s < all ? 1.0f : 0.0f;
        expect(close_floats(want, got, sizes, all + 64, 0x1p-16f), k->contract->name);
    }
}

TESTED_WITH(lstm_f32, test_rnn, 4)
TESTED_WITH(gru_f32, test_rnn, 3)
