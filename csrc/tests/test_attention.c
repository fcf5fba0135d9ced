/* Attention, every instruction set against `ref`: sizes around the tiles, extremes, masks, strides, and items in two parts.
 * tests/runtime/test_transformers.py compares `ref` with the interpreter. */
#include "test_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef __linux__
enum { MAX = 1 << 15, SCRATCH = 1 << 17, LONG = 1 }; /* 2 batches of 2 heads of 130 keys of 40, and more */
#else
enum { MAX = 1 << 13, SCRATCH = 1 << 16, LONG = 0 }; /* boards have room for 40 rows of 40 */
#endif

static _Alignas(64) int16_t x16[MAX], y16[MAX], z16[MAX];
static _Alignas(64) int8_t x8[MAX], y8[MAX], z8[MAX];
static float floats[MAX];
static uint8_t bytes_of_mask[MAX];
static _Alignas(64) char scratch[SCRATCH];

static void fill(void) {
    const int extremes = random_int(0, 4) == 0;
    int8_t *const bytes[] = {x8, y8, z8};
    int16_t *const words[] = {x16, y16, z16};
    for (int t = 0; t < 3; t++)
        for (int i = 0; i < MAX; i++) {
            bytes[t][i] = (int8_t)(extremes ? (random_u32() & 1 ? 127 : -128) : random_int(-128, 127));
            words[t][i] = (int16_t)(extremes ? (random_u32() & 1 ? 32767 : -32768) : random_int(-32768, 32767));
        }
    for (int i = 0; i < MAX; i++) {
        bytes_of_mask[i] = random_int(0, 3) != 0;
        floats[i] = random_int(0, 9) ? (float)random_int(-3000, 0) * 1e-3f : -INFINITY;
    }
    floats[random_int(0, 99)] = NAN;
}

static void test_attention(const lb_kernel *ref, const lb_kernel *k, int wide) {
    static const int32_t lengths[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40};
    static const int32_t long_ones[] = {63, 64, 65, 79, 96, 97, 128, 130};
    for (int round = 0; round < 600; round++) {
        fill();
        lb_attention_s8_params p = {.batch = random_int(1, 2), .heads = random_int(1, 2), .rows = PICK(lengths), .keys = PICK(lengths)};
        if (LONG && round % 3 == 0) {
            p.keys = PICK(long_ones);
            if (random_int(0, 1))
                p.rows = PICK(long_ones), p.batch = 1;
        }
        p.features = PICK(lengths), p.values = PICK(lengths), p.block_rows = random_int(1, p.rows + 2);
        p.causal = random_int(0, 1), p.out_bytes = width();
        const int interleaved = random_int(0, 1); /* heads beside each other, as a linear layer leaves them, or one after the other */
        const int32_t sizes[4][2] = {{p.rows, p.features}, {p.keys, p.features}, {p.keys, p.values}, {p.rows, p.values}};
        int32_t *const strides[] = {p.q_stride, p.k_stride, p.v_stride, p.out_stride};
        for (int i = 0; i < 4; i++) {
            strides[i][0] = p.heads * sizes[i][0] * sizes[i][1];
            strides[i][1] = interleaved ? sizes[i][1] : sizes[i][0] * sizes[i][1];
            strides[i][2] = interleaved ? p.heads * sizes[i][1] : sizes[i][1];
        }
        p.q_offset = random_int(0, 3), p.k_offset = random_int(0, 3), p.v_offset = random_int(0, 3);
        p.mask_bytes = random_int(0, 2) * 2;
        p.mask_bytes = p.mask_bytes == 2 ? 1 : p.mask_bytes;
        p.mask_stride[0] = random_int(0, 1) * p.keys, p.mask_stride[1] = random_int(0, 1) * 7;
        p.mask_stride[2] = random_int(0, 1) * p.keys, p.mask_stride[3] = random_int(0, 3) != 0;
        const int zeros = !wide || random_int(0, 1), half = wide ? 32768 : 128;
        if (zeros)
            p.q_zero = random_int(-half, half - 1), p.k_zero = random_int(-half, half - 1), p.v_zero = random_int(-half, half - 1);
        clamp_of(p.out_bytes, &p.y_zero, &p.lo, &p.hi);
        p.score_scale = (float)random_int(1, 100) / (float)(p.features * half) / (float)half;
        p.multiplier = (float)random_int(1, 300) * 0.01f;
        void *mask = p.mask_bytes == 1 ? (void *)bytes_of_mask : (void *)floats;
        void *args[6] = {wide ? (void *)(x16 + 1) : x8 + 1, wide ? (void *)y16 : y8, wide ? (void *)z16 : z8, mask, NULL, scratch};
        const size_t bytes = (size_t)(p.batch * p.heads * p.rows * p.values * p.out_bytes);
        expect_same(ref, k, &p, args, 4, bytes, 4, p.batch * p.heads * ((p.rows + p.block_rows - 1) / p.block_rows));
    }
}

KERNEL_TEST(attention_s8) {
    test_attention(ref, k, 0);
}

KERNEL_TEST(attention_s16) {
    test_attention(ref, k, 1);
}
