/* Weights that are signs and powers of two, against plain products: windows that leave the image, groups, zeros, both ends of the powers,
 * results half way between two integers, items in two parts. */
#include "base/numerics.h"
#include "test_support.h"

#include <stdlib.h>
#include <string.h>

enum { IN = 2 * 6 * 6 * 12, WEIGHTS = 12 * 9 * 12, OUT = 2 * 8 * 8 * 15 };

static int8_t x[IN];
static int32_t w[WEIGHTS], bias[12], shift[12];
static uint8_t nibbles[WEIGHTS];
static float multiplier[12];

static int32_t sum_of(const lb_conv_log_s8_params *p, int32_t image, int32_t row, int32_t column, int32_t c) {
    const int32_t k = p->kernel_h * p->kernel_w * p->depth;
    int32_t sum = bias[c];
    for (int32_t i = 0; i < p->kernel_h; i++)
        for (int32_t j = 0; j < p->kernel_w; j++) {
            const int32_t y = row * p->stride_h - p->pad_h + i * p->dilation_h, z = column * p->stride_w - p->pad_w + j * p->dilation_w;
            for (int32_t d = 0; d < p->depth && y >= 0 && y < p->in_h && z >= 0 && z < p->in_w; d++)
                sum += (x[((image * p->in_h + y) * p->in_w + z) * p->in_c + c / p->each * p->depth + d] - p->x_zero) *
                       w[c * k + (i * p->kernel_w + j) * p->depth + d];
        }
    return sum;
}

static lb_conv_log_s8_params random_params(void) {
    const int32_t groups = random_int(1, 3);
    lb_conv_log_s8_params p = {.batch = random_int(0, 2), .in_h = random_int(1, 6), .in_w = random_int(1, 6), .depth = random_int(1, 4)};
    p.each = random_int(1, 4), p.in_c = groups * p.depth, p.out_c = groups * p.each;
    p.kernel_h = random_int(1, 3), p.kernel_w = random_int(1, 3), p.stride_h = random_int(1, 2), p.stride_w = random_int(1, 2);
    p.dilation_h = random_int(1, 2), p.dilation_w = random_int(1, 2), p.pad_h = random_int(0, 1), p.pad_w = random_int(0, 1);
    p.out_h = (p.in_h + 2 * p.pad_h - (p.kernel_h - 1) * p.dilation_h - 1) / p.stride_h + 1;
    p.out_w = (p.in_w + 2 * p.pad_w - (p.kernel_w - 1) * p.dilation_w - 1) / p.stride_w + 1;
    p.out_stride = p.out_c + random_int(0, 3), p.x_zero = random_int(-128, 127);
    clamp_of(1, &p.y_zero, &p.lo, &p.hi);
    return p;
}

static void fill(const lb_conv_log_s8_params *p) {
    const int32_t k = p->kernel_h * p->kernel_w * p->depth, row = (k + 1) / 2;
    memset(nibbles, 0, sizeof nibbles);
    for (int32_t i = 0; i < p->batch * p->in_h * p->in_w * p->in_c; i++)
        x[i] = (int8_t)random_int(-128, 127);
    for (int32_t c = 0; c < p->out_c; c++) {
        bias[c] = random_int(-20000, 20000), shift[c] = random_int(-6, 30);
        multiplier[c] = 1.0f / (float)(1 << (shift[c] < 0 ? 0 : shift[c])) * (float)(1 << (shift[c] < 0 ? -shift[c] : 0));
        for (int32_t i = 0; i < k; i++) {
            const int32_t power = random_int(0, 7), sign = random_int(0, 1);
            w[c * k + i] = power ? (sign ? -(1 << (power - 1)) : 1 << (power - 1)) : 0;
            nibbles[c * row + i / 2] = (uint8_t)(nibbles[c * row + i / 2] | (power | sign << 3) << i % 2 * 4);
        }
    }
}

/* What a kernel gives against the definition; `third` is its fourth argument. */
static void test_log(const lb_kernel *k, void *third, size_t element) {
    for (int round = 0; round < 300; round++) {
        const lb_conv_log_s8_params p = random_params();
        if (p.out_h < 1 || p.out_w < 1)
            continue;
        fill(&p);
        const int32_t items = p.batch * p.out_h, cut = items ? random_int(0, items) : 0;
        static unsigned char out[OUT * 4 + 64], want[OUT * 4 + 64];
        memset(out, 0xA5, sizeof out), memset(want, 0xA5, sizeof want);
        void *args[5] = {x, nibbles, bias, third, out};
        k->call(&p, args, cut, items);
        k->call(&p, args, 0, cut);
        for (int32_t item = 0; item < items; item++)
            for (int32_t o = 0; o < p.out_w; o++)
                for (int32_t c = 0; c < p.out_c; c++) {
                    const int32_t sum = sum_of(&p, item / p.out_h, item % p.out_h, o, c), at = (item * p.out_w + o) * p.out_stride + c;
                    if (element == 1)
                        ((int8_t *)want)[at] = (int8_t)lb_requantize(sum, multiplier[c], p.y_zero, p.lo, p.hi);
                    else
                        ((float *)(void *)want)[at] = (float)sum * multiplier[c];
                }
        expect_equal(k, want, out, sizeof want, 0);
    }
}

KERNEL_TEST(conv_log_s8) {
    (void)ref;
    test_log(k, multiplier, 1);
}

KERNEL_TEST(conv_log_f32) {
    (void)ref;
    test_log(k, multiplier, 4);
}

KERNEL_TEST(conv_shift_s8) {
    (void)ref;
    test_log(k, shift, 1);
}
