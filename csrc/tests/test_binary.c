/* Products of -1 and +1: `ref` against plain sums, and every instruction set against `ref`. Sizes around words and panels, windows that
 * leave the image on every side, items in two parts. */
#include "base/numerics.h"
#include "test_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PIXELS = 8 * 8 * 2, CHANNELS = 300, TAPS = 9, OUT = 40 };

static int8_t x[PIXELS * CHANNELS], w[OUT * TAPS * CHANNELS];
static uint8_t bits[PIXELS * (CHANNELS + 64)];
static int32_t bias[OUT];
static float multiplier[OUT];

static int32_t row_bytes(int32_t k) {
    return (k + 63) / 64 * 8;
}

/* Weights (out_c, taps, in_c) in the layout of the kernel. */
static uint8_t *pack(const lb_kernel *k, int32_t out_c, int32_t taps, int32_t in_c) {
    const int32_t row = row_bytes(in_c), panel = strcmp(k->isa->name, "ref") == 0 ? 1 : 8;
    const size_t size = (size_t)((out_c + panel - 1) / panel * panel * taps * row);
    uint8_t *out = aligned_alloc(64, size / 64 * 64 + 64);
    if (!out)
        abort();
    memset(out, 0, size);
    for (int32_t c = 0; c < out_c; c++)
        for (int32_t t = 0; t < taps; t++)
            for (int32_t i = 0; i < in_c; i++) {
                const int32_t word = c / panel * taps * (row / 8) + t * (row / 8) + i / 64;
                uint8_t *to = out + (word * panel + c % panel) * 8 + i % 64 / 8;
                if (w[(c * taps + t) * in_c + i] > 0)
                    *to = (uint8_t)(*to | 1 << i % 8);
            }
    return out;
}

/* Sum of products by its definition. */
static int32_t sum_of(const lb_conv_b1_s8_params *p, int32_t pixel, int32_t c) {
    const int32_t size = p->out_h * p->out_w, image = pixel / size, row = pixel % size / p->out_w, column = pixel % p->out_w;
    int32_t sum = bias[c];
    for (int32_t i = 0; i < p->kernel_h; i++)
        for (int32_t j = 0; j < p->kernel_w; j++) {
            const int32_t y = row * p->stride_h - p->pad_h + i * p->dilation_h, z = column * p->stride_w - p->pad_w + j * p->dilation_w;
            if (y < 0 || y >= p->in_h || z < 0 || z >= p->in_w)
                continue;
            for (int32_t d = 0; d < p->in_c; d++)
                sum += x[((image * p->in_h + y) * p->in_w + z) * p->in_c + d] * w[((c * p->kernel_h + i) * p->kernel_w + j) * p->in_c + d];
        }
    return sum;
}

static lb_conv_b1_s8_params random_params(int round) {
    static const int32_t channels[] = {1, 3, 31, 63, 64, 65, 100, 128, 129, 191, 256, 300};
    lb_conv_b1_s8_params p = {.batch = random_int(0, 2), .in_h = random_int(1, 8), .in_w = random_int(1, 8), .in_c = PICK(channels)};
    p.out_c = random_int(1, OUT), p.kernel_h = random_int(1, 3), p.kernel_w = random_int(1, 3);
    if (round % 4 == 0)
        p.kernel_h = p.kernel_w = p.in_h = 1;
    p.stride_h = random_int(1, 2), p.stride_w = random_int(1, 2), p.dilation_h = random_int(1, 2), p.dilation_w = random_int(1, 2);
    p.pad_h = random_int(0, 2), p.pad_w = random_int(0, 2);
    if (round % 4 == 0)
        p.pad_h = p.pad_w = 0, p.stride_h = p.stride_w = 1;
    p.out_h = (p.in_h + 2 * p.pad_h - (p.kernel_h - 1) * p.dilation_h - 1) / p.stride_h + 1;
    p.out_w = (p.in_w + 2 * p.pad_w - (p.kernel_w - 1) * p.dilation_w - 1) / p.stride_w + 1;
    p.block = random_int(1, 20), p.out_stride = p.out_c + random_int(0, 1) * 3;
    clamp_of(1, &p.y_zero, &p.lo, &p.hi);
    return p;
}

static void fill(const lb_conv_b1_s8_params *p) {
    const int32_t pixels = p->batch * p->in_h * p->in_w, weights = p->out_c * p->kernel_h * p->kernel_w * p->in_c;
    const int style = random_int(0, 3);
    for (int32_t i = 0; i < pixels * p->in_c; i++)
        x[i] = style == 0 || random_u32() & 1 ? 1 : -1;
    for (int32_t i = 0; i < weights; i++)
        w[i] = style != 0 && random_u32() & 1 ? 1 : -1;
    for (int32_t c = 0; c < p->out_c; c++)
        bias[c] = random_int(-1000, 1000), multiplier[c] = (float)random_int(1, 1 << 20) * (random_int(0, 7) ? 1e-6f : 1e30f);
    const int32_t row = row_bytes(p->in_c);
    memset(bits, 0, sizeof bits);
    for (int32_t i = 0; i < pixels; i++)
        for (int32_t d = 0; d < p->in_c; d++)
            if (x[i * p->in_c + d] > 0)
                bits[i * row + d / 8] = (uint8_t)(bits[i * row + d / 8] | 1 << d % 8);
}

static void test_conv_b1(const lb_kernel *ref, const lb_kernel *k, size_t element) {
    for (int round = 0; round < 200; round++) {
        const lb_conv_b1_s8_params p = random_params(round);
        if (p.out_h < 1 || p.out_w < 1)
            continue;
        fill(&p);
        const int32_t pixels = p.batch * p.out_h * p.out_w, items = (pixels + p.block - 1) / p.block;
        const size_t bytes = element * (size_t)(pixels * p.out_stride);
        const lb_kernel *kernels[2] = {ref, k};
        unsigned char *out[2];
        for (int i = 0; i < 2; i++) {
            uint8_t *weights = pack(kernels[i], p.out_c, p.kernel_h * p.kernel_w, p.in_c);
            out[i] = malloc(bytes + 64);
            if (!out[i])
                abort();
            memset(out[i], 0xA5, bytes + 64);
            void *args[5] = {bits, weights, bias, multiplier, out[i]};
            const int32_t cut = items ? random_int(0, items) : 0;
            kernels[i]->call(&p, args, cut, items);
            kernels[i]->call(&p, args, 0, cut);
            free(weights);
        }
        expect_equal(k, out[0], out[1], bytes + 64, 0);
        for (int32_t n = 0; n < 8 && pixels; n++) {
            const int32_t pixel = random_int(0, pixels - 1), c = random_int(0, p.out_c - 1), sum = sum_of(&p, pixel, c);
            const size_t at = (size_t)(pixel * p.out_stride + c);
            if (element == 1)
                expect(((int8_t *)out[0])[at] == lb_requantize(sum, multiplier[c], p.y_zero, p.lo, p.hi),
                       "conv_b1_s8 is the sum of products");
            else
                expect(((float *)(void *)out[0])[at] == (float)sum * multiplier[c], "conv_b1_f32 is the sum of products");
        }
        free(out[0]), free(out[1]);
    }
}

KERNEL_TEST(conv_b1_s8) {
    test_conv_b1(ref, k, 1);
}

KERNEL_TEST(conv_b1_f32) {
    test_conv_b1(ref, k, 4);
}

KERNEL_TEST(pack_s8_b1) {
    for (int32_t length = 1; length <= CHANNELS; length += random_int(1, 9)) {
        const lb_conv_b1_s8_params image = {.batch = 1, .in_h = 1, .in_w = 5, .in_c = length, .kernel_h = 1, .kernel_w = 1, .out_c = 1};
        fill(&image);
        const lb_pack_s8_b1_params p = {length};
        void *args[2] = {x, NULL};
        expect_same(ref, k, &p, args, 1, (size_t)(5 * row_bytes(length)), 0, 5);
        uint8_t got[5 * (CHANNELS + 64) / 8];
        args[1] = got;
        k->call(&p, args, 0, 5);
        expect(memcmp(got, bits, (size_t)(5 * row_bytes(length))) == 0, "pack_s8_b1 sets a bit for each +1");
    }
}

KERNEL_TEST(sign_f32_s8) {
    static float reals[] = {0.0f, -0.0f, 1.0f, -1.0f, 1e-45f, -1e-45f, INFINITY, -INFINITY, NAN, -NAN, -3e38f};
    const int8_t want[] = {1, 1, 1, -1, 1, -1, 1, -1, 1, 1, -1};
    const lb_sign_f32_s8_params p = {0};
    int8_t got[sizeof want];
    void *args[2] = {reals, got};
    k->call(&p, args, 0, (int32_t)sizeof want);
    expect(memcmp(got, want, sizeof want) == 0, "sign_f32_s8 is -1 below zero alone");
    expect_same(ref, k, &p, args, 1, sizeof want, 0, (int32_t)sizeof want);
}
