/* Kernels of floats, every instruction set against `ref` within the error that the contract names: sizes around the tiles, strides,
 * padding, groups, NaN and infinities, items in two parts. The error of a sum is bounded by the same sum of magnitudes, which `ref`
 * computes. */
#include "base/scalar_f32.h"
#include "test_float.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Alignas(64) float x[MAX_FLOATS], y[MAX_FLOATS], w[MAX_FLOATS], bias[512], size_x[MAX_FLOATS], size_w[MAX_FLOATS], size_bias[512];
static float want[MAX_FLOATS], got[MAX_FLOATS + 64], most[MAX_FLOATS];

float random_float(void) {
    return (float)random_int(-(1 << 20), 1 << 20) * (random_int(0, 3) ? 0x1p-20f : 0x1p-12f);
}

void fill_floats(float *to, int32_t n) {
    for (int32_t i = 0; i < n; i++)
        to[i] = random_float();
}

int close_floats(const float *a, const float *b, const float *error, int32_t n, float factor) {
    for (int32_t i = 0; i < n; i++) {
        if (lb_bits_of(a[i]) == lb_bits_of(b[i]) || (a[i] != a[i] && b[i] != b[i]))
            continue;
        const float allowed = (error ? error[i] : lb_absf(a[i])) * factor + FLT_MIN;
        if (!(lb_absf(a[i] - b[i]) <= allowed)) {
            printf("element %d is %.9g, not %.9g (%.3g allowed)\n", (int)i, (double)b[i], (double)a[i], (double)allowed);
            return 0;
        }
    }
    return 1;
}

static void sizes_of(float *to, const float *from, int32_t n) {
    for (int32_t i = 0; i < n; i++)
        to[i] = lb_absf(from[i]);
}

/* Weights (groups, n, k) in panels of 16 columns; plain for `ref`. */
static void *packed(const lb_isa *isa, const float *from, int32_t groups, int32_t n, int32_t k) {
    const int32_t wide = (n + 15) / 16 * 16;
    float *to = aligned_alloc(64, ((size_t)groups * (size_t)wide * (size_t)k * sizeof *to + 127) / 64 * 64);
    if (!to)
        abort();
    if (strcmp(isa->name, "ref") == 0) {
        memcpy(to, from, sizeof *to * (size_t)(groups * n * k));
        return to;
    }
    for (int32_t g = 0; g < groups; g++)
        for (int32_t j = 0; j < wide; j++)
            for (int32_t i = 0; i < k; i++)
                to[(g * wide + j / 16 * 16) * k + i * 16 + j % 16] = j < n ? from[(g * n + j) * k + i] : 0.0f;
    return to;
}

/* args are x, weights, bias, out, scratch. The sums have k products; `p_free` are the params without a clamp. */
static void expect_close_product(const lb_kernel *ref, const lb_kernel *k, const void *p, const void *p_free, int32_t groups, int32_t n,
                                 int32_t depth, size_t scratch_bytes, int32_t outputs, int32_t items, const char *claim) {
    void *scratch = aligned_alloc(64, (scratch_bytes + 127) / 64 * 64);
    sizes_of(size_x, x, MAX_FLOATS), sizes_of(size_w, w, groups * n * depth), sizes_of(size_bias, bias, groups * n);
    void *plain = packed(ref->isa, w, groups, n, depth), *plain_sizes = packed(ref->isa, size_w, groups, n, depth);
    void *weights = packed(k->isa, w, groups, n, depth);
    void *args[5] = {x + 1, plain, bias, want, scratch}, *size_args[5] = {size_x + 1, plain_sizes, size_bias, most, scratch};
    memset(want, 0x5A, sizeof want), memset(got, 0x5A, sizeof got), memset(most, 0x5A, sizeof most);
    ref->call(p, args, 0, items);
    ref->call(p_free, size_args, 0, items);
    args[1] = weights, args[3] = got;
    const int32_t cut = items ? random_int(0, items) : 0;
    k->call(p, args, cut, items);
    k->call(p, args, 0, cut);
    expect(close_floats(want, got, most, outputs + 64, (float)(depth + 2) * 0x1p-22f), claim);
    free(plain), free(plain_sizes), free(weights), free(scratch);
}

KERNEL_TEST(linear_f32) {
    static const int32_t rows[] = {0, 1, 2, 3, 5, 6, 7, 13, 14, 15, 31}, depths[] = {0, 1, 3, 4, 7, 64, 129, 512},
                         ns[] = {1, 7, 15, 16, 17, 31, 32, 33, 48};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t j = 0; j < sizeof depths / sizeof *depths; j++)
            for (size_t l = 0; l < sizeof ns / sizeof *ns; l++) {
                lb_linear_f32_params p = {.rows = rows[i], .k = depths[j], .n = ns[l], .out_stride = ns[l] + random_int(0, 3)};
                p.block_rows = random_int(1, 31), p.block_columns = 16 * random_int(1, 4), p.lo = -INFINITY, p.hi = INFINITY;
                const lb_linear_f32_params all = p;
                if ((i + j + l) % 2)
                    p.lo = 0.0f, p.hi = 6.0f;
                fill_floats(x, p.rows * p.k + 1), fill_floats(w, p.n * p.k), fill_floats(bias, p.n);
                const int32_t items = (p.rows + p.block_rows - 1) / p.block_rows * ((p.n + p.block_columns - 1) / p.block_columns);
                const size_t scratch = 4 * (size_t)(p.block_rows * (p.k + 16));
                expect_close_product(ref, k, &p, &all, 1, p.n, p.k, scratch, p.rows * p.out_stride, items, "linear_f32");
            }
}

KERNEL_TEST(conv_f32) {
    static const int32_t channels[] = {1, 2, 3, 5, 8, 12, 16, 17, 24, 33, 64};
    for (int round = 0; round < 400; round++) {
        lb_conv_f32_params p = {.batch = random_int(0, 2), .in_h = random_int(1, 8), .in_w = random_int(1, 8)};
        p.groups = random_int(0, 3) ? 1 : 3;
        const int most = p.groups == 1 ? 10 : 9;
        p.in_c = channels[random_int(0, most)] * p.groups, p.out_c = channels[random_int(0, most)] * p.groups;
        p.kernel_h = random_int(1, 3), p.kernel_w = random_int(1, 3);
        p.stride_h = random_int(1, 2), p.stride_w = random_int(1, 2);
        p.dilation_h = random_int(1, 2), p.dilation_w = random_int(1, 2);
        if (!RANDOM_OUTPUT(p, 2))
            continue;
        p.block = random_int(1, 40), p.block_columns = 16 * random_int(1, 2), p.out_stride = p.out_c + random_int(0, 1) * 7;
        p.lo = -INFINITY, p.hi = INFINITY;
        const lb_conv_f32_params all = p;
        if (round % 2)
            p.lo = -1.0f, p.hi = 0.5f;
        const int32_t n = p.out_c / p.groups, depth = p.in_c / p.groups, taps = p.kernel_h * p.kernel_w;
        const int32_t pixels = p.batch * p.out_h * p.out_w;
        const int32_t items = (pixels + p.block - 1) / p.block * p.groups * ((n + p.block_columns - 1) / p.block_columns);
        fill_floats(x, p.batch * p.in_h * p.in_w * p.in_c + 1), fill_floats(w, p.out_c * taps * depth), fill_floats(bias, p.out_c);
        const int32_t spanned = (p.block + p.out_w - 2) / p.out_w, below = spanned < p.out_h ? spanned : p.out_h - 1;
        const int32_t lines = below * p.stride_h + (p.kernel_h - 1) * p.dilation_h + 1, line = (p.out_w - 1) * p.stride_w + p.kernel_w;
        const int32_t scratch = p.groups == 1 && p.dilation_w == 1 && depth < 64 ? 4 * lines * line * depth
                                : depth < 16                                     ? 4 * p.block * taps * depth
                                                                                 : 8 * (p.block + 14) * taps + 4 * depth;
        expect_close_product(ref, k, &p, &all, p.groups, n, taps * depth, (size_t)scratch, pixels * p.out_stride, items, "conv_f32");
    }
}

KERNEL_TEST(dwconv_f32) {
    static const int32_t channels[] = {1, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40};
    for (int round = 0; round < 250; round++) {
        lb_dwconv_f32_params p = {.batch = random_int(0, 2), .in_h = random_int(1, 9), .in_w = random_int(1, 32)};
        p.channels = channels[random_int(0, 11)];
        p.kernel_h = random_int(1, 5), p.kernel_w = random_int(1, 5);
        p.stride_h = random_int(1, 3), p.stride_w = random_int(1, 3);
        p.dilation_h = random_int(0, 3) ? 1 : 2, p.dilation_w = random_int(0, 3) ? 1 : 2;
        if (!RANDOM_OUTPUT(p, 3))
            continue;
        p.out_stride = p.channels + random_int(0, 1) * 5, p.lo = -INFINITY, p.hi = INFINITY;
        const lb_dwconv_f32_params all = p;
        if (round % 2)
            p.lo = 0.0f;
        fill_floats(x, p.batch * p.in_h * p.in_w * p.channels + 1), fill_floats(bias, p.channels);
        fill_floats(w, p.kernel_h * p.kernel_w * p.channels);
        sizes_of(size_x, x, MAX_FLOATS), sizes_of(size_w, w, MAX_FLOATS), sizes_of(size_bias, bias, p.channels);
        void *args[4] = {x + 1, w, bias, want}, *size_args[4] = {size_x + 1, size_w, size_bias, most};
        memset(want, 0x5A, sizeof want), memset(got, 0x5A, sizeof got), memset(most, 0x5A, sizeof most);
        const int32_t items = p.batch * p.out_h, cut = random_int(0, items);
        ref->call(&p, args, 0, items);
        ref->call(&all, size_args, 0, items);
        args[3] = got;
        k->call(&p, args, cut, items);
        k->call(&p, args, 0, cut);
        const float factor = (float)(p.kernel_h * p.kernel_w + 2) * 0x1p-22f;
        expect(close_floats(want, got, most, items * p.out_w * p.out_stride + 64, factor), "dwconv_f32");
    }
}

static float special(void) {
    static const float list[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, FLT_MAX, -FLT_MAX, FLT_MIN, 1.0f, -1.0f};
    return random_int(0, 4) ? random_float() : list[random_u32() % (sizeof list / sizeof *list)];
}

void call_both(const lb_kernel *ref, const lb_kernel *k, const void *p, void **args, int output, int32_t items, void *wanted, void *given) {
    args[output] = wanted;
    ref->call(p, args, 0, items);
    args[output] = given;
    const int32_t cut = items ? random_int(0, items) : 0;
    k->call(p, args, cut, items);
    k->call(p, args, 0, cut);
}

/* Equal bits but for the payload of NaN. */
void expect_same_floats(const lb_kernel *ref, const lb_kernel *k, const void *p, void **args, int output, int32_t n, int32_t items) {
    memset(want, 0x5A, sizeof want), memset(got, 0x5A, sizeof got);
    call_both(ref, k, p, args, output, items, want, got);
    int same = 1;
    for (int32_t i = 0; i < n + 64; i++)
        same &= lb_bits_of(want[i]) == lb_bits_of(got[i]) || (want[i] != want[i] && got[i] != got[i]);
    expect(same, k->contract->name);
}

static void test_binary_f32(const lb_kernel *ref, const lb_kernel *k) {
    for (int round = 0; round < 200; round++) {
        lb_add_f32_params p = {.shape = {random_int(1, 2), random_int(1, 3), random_int(1, 4), random_int(0, 40)},
                               .lo = round % 2 ? -INFINITY : -0.5f,
                               .hi = round % 3 ? INFINITY : 0.5f};
        int32_t at_a = 1, at_b = 1;
        for (int axis = 3; axis >= 0; axis--) {
            const int32_t keep_a = random_int(0, 3) > 0, keep_b = random_int(0, 3) > 0;
            p.a_stride[axis] = keep_a ? at_a : 0, p.b_stride[axis] = keep_b ? at_b : 0;
            at_a *= keep_a ? p.shape[axis] : 1, at_b *= keep_b ? p.shape[axis] : 1;
        }
        for (int32_t i = 0; i < 1024; i++)
            x[i] = special(), y[i] = special();
        const int32_t n = p.shape[0] * p.shape[1] * p.shape[2] * p.shape[3];
        void *args[3] = {x + 1, y + 3};
        expect_same_floats(ref, k, &p, args, 2, n, n);
    }
}
TESTED_BY(add_f32, test_binary_f32)
TESTED_BY(div_f32, test_binary_f32)
TESTED_BY(max_f32, test_binary_f32)
TESTED_BY(min_f32, test_binary_f32)
TESTED_BY(mul_f32, test_binary_f32)
TESTED_BY(prelu_f32, test_binary_f32)
TESTED_BY(sub_f32, test_binary_f32)

KERNEL_TEST(clip_f32) {
    for (int32_t n = 0; n < 70; n++) {
        const lb_clip_f32_params p = {n % 3 ? 0.0f : -INFINITY, n % 2 ? 6.0f : INFINITY};
        for (int32_t i = 0; i < n + 1; i++)
            x[i] = special();
        void *args[2] = {x + 1};
        expect_same_floats(ref, k, &p, args, 1, n, n);
    }
}

KERNEL_TEST(max_pool_f32) {
    for (int round = 0; round < 100; round++) {
        lb_max_pool_f32_params p = {
            .batch = random_int(1, 2), .in_h = random_int(1, 7), .in_w = random_int(1, 7), .channels = random_int(1, 20)};
        p.kernel_h = random_int(1, 3), p.kernel_w = random_int(1, 3), p.stride_h = random_int(1, 2), p.stride_w = random_int(1, 2);
        p.pad_h = random_int(0, 2), p.pad_w = random_int(0, 2), p.dilation_h = random_int(1, 2), p.dilation_w = random_int(1, 2);
        p.out_h = random_int(1, 5), p.out_w = random_int(1, 5), p.out_stride = p.channels + random_int(0, 2);
        for (int32_t i = 0; i < 2 * 49 * 20 + 1; i++)
            x[i] = special();
        void *args[2] = {x + 1};
        expect_same_floats(ref, k, &p, args, 1, p.batch * p.out_h * p.out_w * p.out_stride, p.batch * p.out_h);
    }
}

KERNEL_TEST(avg_pool_f32) {
    for (int round = 0; round < 50; round++) {
        lb_avg_pool_f32_params p = {.batch = 1, .in_h = random_int(1, 7), .in_w = random_int(1, 7), .channels = random_int(1, 20)};
        p.kernel_h = random_int(1, 3), p.kernel_w = random_int(1, 3), p.stride_h = p.stride_w = p.dilation_h = p.dilation_w = 1;
        p.out_h = p.in_h, p.out_w = p.in_w, p.out_stride = p.channels, p.count_h0 = p.count_w1 = round % 2;
        fill_floats(x, 49 * 20);
        void *args[2] = {x};
        expect_same_floats(ref, k, &p, args, 1, p.out_h * p.out_w * p.channels, p.out_h);
        const float first = got[0]; /* the window of the first pixel has no padding before it */
        float sum = 0.0f;
        int32_t count = 0;
        for (int32_t i = 0; i < p.kernel_h && i < p.in_h; i++)
            for (int32_t j = 0; j < p.kernel_w && j < p.in_w; j++, count++)
                sum += x[(i * p.in_w + j) * p.channels];
        const int32_t beyond = p.count_w1 && p.kernel_w > p.in_w ? p.in_w + 1 : p.kernel_w < p.in_w ? p.kernel_w : p.in_w;
        count = (p.kernel_h < p.in_h ? p.kernel_h : p.in_h) * beyond;
        expect(lb_absf(first - sum / (float)count) <= 1e-3f, "avg_pool_f32 is a mean");
    }
}

KERNEL_TEST(reduce_f32) {
    static const int32_t ns[] = {0, 1, 7, 8, 31, 32, 33, 100}, inners[] = {1, 2, 7, 8, 9, 20};
    for (int32_t kind = 0; kind < 6; kind++)
        for (size_t i = 0; i < sizeof ns / sizeof *ns; i++)
            for (size_t j = 0; j < sizeof inners / sizeof *inners; j++) {
                lb_reduce_f32_params p = {3, ns[i], inners[j], kind, kind == 1, kind == 0 ? 0.25f : 1.0f};
                const int32_t n = p.outer * p.n * p.inner;
                for (int32_t q = 0; q < n; q++)
                    x[q] = kind == 5 ? 1.0f + 0.01f * random_float() : kind > 2 ? special() : random_float();
                sizes_of(size_x, x, n);
                void *args[2] = {x, want}, *size_args[2] = {size_x, most};
                memset(want, 0x5A, sizeof want), memset(got, 0x5A, sizeof got), memset(most, 0x5A, sizeof most);
                ref->call(&p, args, 0, p.outer);
                ref->call(&p, size_args, 0, p.outer);
                args[1] = got;
                k->call(&p, args, 1, p.outer);
                k->call(&p, args, 0, 1);
                const float factor = kind == 3 || kind == 4 ? 0.0f : (float)(kind == 5 ? p.n : p.n / 16 + 16) * 0x1p-22f;
                expect(close_floats(want, got, most, p.outer * p.inner + 64, factor), "reduce_f32");
            }
}
