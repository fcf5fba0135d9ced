/* Convolutions whose weights have a layout of their own, every instruction set against `ref`. Inputs are of exactly their size, so that
 * sanitizers see an element too many. */
#include "test_support.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(list) ((int32_t)(sizeof list / sizeof *list))

enum { MAX_CHANNELS = 100 };

static int32_t bias[MAX_CHANNELS];
static float multiplier[MAX_CHANNELS];

/* Random bytes, or now and then only the extremes. The caller frees them. */
static int8_t *bytes_of(int64_t n) {
    int8_t *to = malloc((size_t)n + 1);
    if (!to)
        abort();
    const int extremes = random_int(0, 3) == 0;
    for (int64_t i = 0; i < n; i++)
        to[i] = (int8_t)(extremes ? (random_u32() & 1 ? 127 : -128) : random_int(-128, 127));
    return realloc(to, n ? (size_t)n : 1);
}

static void fill_channels(int32_t n) {
    const int large = random_int(0, 1); /* whether some saturate */
    for (int32_t i = 0; i < n; i++) {
        bias[i] = random_int(-100000, 100000);
        multiplier[i] = (float)random_int(1, 1 << 20) * (large && random_int(0, 7) == 0 ? 1e3f : random_int(0, 1) ? 1e-9f : 1e-7f);
    }
}

/* Whether it takes weights as `ref` does. */
static int is_plain(const lb_kernel *k) {
    const char *isa = k->isa->name;
    return strcmp(isa, "ref") == 0 || strcmp(isa, "armdsp") == 0 || strcmp(isa, "mve") == 0 || strcmp(isa, "neon") == 0;
}

/* Both kernels with their own weights; the tested one does its items in two parts. */
static void expect_same_weights(const lb_kernel *ref, const lb_kernel *k, const void *p, const int8_t *x, const int8_t *w, void *packed,
                                int64_t scratch_bytes, size_t bytes, int32_t items) {
    static unsigned char want[1 << 17], got[sizeof want];
    if (bytes + 64 > sizeof want)
        abort();
    memset(want, 0xA5, bytes + 64), memset(got, 0xA5, bytes + 64);
    void *scratch = aligned_bytes(scratch_bytes);
    void *args[6] = {(void *)(uintptr_t)x, (void *)(uintptr_t)w, bias, multiplier, want, scratch};
    ref->call(p, args, 0, items);
    const int32_t cut = items ? random_int(0, items) : 0;
    args[1] = is_plain(k) ? args[1] : packed, args[4] = got;
    k->call(p, args, cut, items);
    k->call(p, args, 0, cut);
    expect_equal(k, want, got, bytes + 64, 0);
    free(scratch);
}

static const int32_t channels[] = {1, 2, 3, 5, 8, 15, 16, 17, 24, 32, 33, 48, 65, 80, 97};

/* u = H w G' in the layout of conv3x3_s8. */
static int16_t *winograd(const int8_t *w, int32_t in_c, int32_t out_c, int32_t tile_h) {
    static const int32_t g[6][3] = {{1, 0, 0}, {-1, -1, -1}, {-1, 1, -1}, {1, 2, 4}, {1, -2, 4}, {0, 0, 1}};
    static const int32_t h2[4][3] = {{1, 0, 0}, {1, 1, 1}, {1, -1, 1}, {0, 0, 1}};
    const int32_t (*h)[3] = tile_h == 4 ? g : h2, points = 6 * (tile_h + 2);
    const int32_t depth = (in_c + 15) / 16 * 16, panels = (out_c + 15) / 16;
    const int64_t bytes = (int64_t)panels * points * (depth + 2) * 16 * 2;
    int16_t *u = aligned_bytes(bytes);
    memset(u, 0, (size_t)bytes);
    for (int32_t o = 0; o < out_c; o++)
        for (int32_t c = 0; c < in_c; c++)
            for (int32_t i = 0; i < points; i++) {
                int32_t sum = 0;
                for (int32_t j = 0; j < 9; j++)
                    sum += h[i / 6][j / 3] * g[i % 6][j % 3] * w[(o * 9 + j) * in_c + c];
                u[(o / 16 * points + i) * (depth + 2) * 16 + 32 + ((c / 2 ^ 1) * 16 + o % 16) * 2 + c % 2] = (int16_t)sum;
            }
    for (int32_t i = 0; i < panels * points * 16; i++) {
        const int16_t *own = u + i / 16 * (depth + 2) * 16 + 32 + i % 16 * 2;
        uint32_t sum = 0;
        for (int32_t c = 0; c < depth; c += 4, own += 64)
            sum -= (uint32_t)(own[0] * own[32]) + (uint32_t)(own[1] * own[33]);
        memcpy(u + i / 16 * (depth + 2) * 16 + i % 16 * 2, &sum, 4);
    }
    return u;
}

/* Weights of conv3x3_s8 in pairs of channels, as avx512vnni takes them. */
static void *pairs_of_weights(const int8_t *w, int32_t in_c, int32_t out_c) {
    const int32_t half = (in_c + 31) / 32 * 16;
    const int64_t bytes = (int64_t)((out_c + 15) / 16) * half * 9 * 32;
    int8_t *to = aligned_bytes(bytes);
    memset(to, 0, (size_t)bytes);
    for (int32_t o = 0; o < out_c; o++)
        for (int32_t j = 0; j < 9; j++)
            for (int32_t c = 0; c < in_c; c++)
                to[(((o / 16 * half + c / 2) * 9 + j) * 16 + o % 16) * 2 + c % 2] = w[(o * 9 + j) * in_c + c];
    return to;
}

KERNEL_TEST(conv3x3_s8) {
    const int wide = strcmp(k->isa->name, "avx512vnni") == 0;
    for (int round = 0; round < 150; round++) {
        lb_conv3x3_s8_params p = {.batch = random_int(0, 2), .in_h = random_int(1, 11), .in_w = random_int(1, 11)};
        p.in_c = random_int(1, 48), p.out_c = channels[random_int(0, COUNT(channels) - 1)]; /* 255 * 128 * 9 * 48 < 2^25 */
        p.pad_h = random_int(0, 2), p.pad_w = random_int(0, 2);
        p.out_h = p.in_h + p.pad_h + random_int(0, 2) - 2, p.out_w = p.in_w + p.pad_w + random_int(0, 2) - 2;
        if (p.out_h < 1 || p.out_w < 1)
            continue;
        p.tile_h = 2 * random_int(1, 2), p.block = random_int(1, 30), p.block_columns = 16 * random_int(1, 4);
        p.out_stride = p.out_c + random_int(0, 1) * 7;
        p.x_zero = random_int(-128, 127), p.lo = random_int(-128, 0), p.hi = random_int(0, 127), p.y_zero = random_int(p.lo, p.hi);
        const int64_t pixels = (int64_t)p.batch * p.in_h * p.in_w * p.in_c, points = 6 * (p.tile_h + 2);
        int8_t *x = bytes_of(pixels), *w = bytes_of((int64_t)9 * p.in_c * p.out_c);
        if (round % 4 == 0) { /* the largest sums */
            memset(x, random_int(0, 1) ? -128 : 127, (size_t)pixels),
                memset(w, random_int(0, 1) ? -128 : 127, (size_t)(9 * p.in_c * p.out_c));
            p.x_zero = random_int(0, 1) ? -128 : 127;
        }
        if (round % 8 == 1) { /* many channels, whose weights are smaller: 255 * 32 * 9 * 300 < 2^25 */
            p.in_c = random_int(90, 300);
            free(x), free(w);
            x = bytes_of((int64_t)p.batch * p.in_h * p.in_w * p.in_c), w = bytes_of((int64_t)9 * p.in_c * p.out_c);
            for (int32_t i = 0; i < 9 * p.in_c * p.out_c; i++)
                w[i] = (int8_t)(w[i] / 4);
        }
        fill_channels(p.out_c);
        void *packed = wide ? pairs_of_weights(w, p.in_c, p.out_c) : winograd(w, p.in_c, p.out_c, p.tile_h);
        const int64_t scratch = wide ? p.block * (points * (2 * ((p.in_c + 31) / 32 * 32) + 128) + 64) + 49152
                                     : points * p.block * (2 * ((p.in_c + 15) / 16 * 16) + 68);
        const int32_t tiles = p.batch * ((p.out_h + p.tile_h - 1) / p.tile_h) * ((p.out_w + 3) / 4);
        const int32_t items = (tiles + p.block - 1) / p.block * ((p.out_c + p.block_columns - 1) / p.block_columns);
        expect_same_weights(ref, k, &p, x, w, packed, scratch, (size_t)(p.batch * p.out_h * p.out_w * p.out_stride), items);
        free(x), free(w), free(packed);
    }
}

/* Weights of conv_few_channels_s8 as its contract says. */
static int16_t *few_channels_weights(const lb_conv_few_channels_s8_params *p, const int8_t *w) {
    const int32_t run = p->kernel_w * p->in_c, pairs = (run + 1) / 2;
    const int64_t bytes = (int64_t)((p->out_c + 15) / 16) * p->kernel_h * pairs * 64;
    int16_t *to = aligned_bytes(bytes);
    memset(to, 0, (size_t)bytes);
    for (int32_t o = 0; o < p->out_c; o++)
        for (int32_t i = 0; i < p->kernel_h; i++)
            for (int32_t j = 0; j < run; j++)
                to[(((o / 16 * p->kernel_h + i) * pairs + j / 2) * 16 + o % 16) * 2 + j % 2] = w[(o * p->kernel_h + i) * run + j];
    return to;
}

/* The same in quads, as avx512vnni takes them: sums of each channel's weights, then fours of a run. */
static void *few_channels_dot4(const lb_conv_few_channels_s8_params *p, const int8_t *w) {
    const int32_t run = p->kernel_w * p->in_c, fours = (run + 3) / 4, panels = (p->out_c + 15) / 16;
    const int64_t bytes = (int64_t)panels * 64 * (1 + p->kernel_h * fours);
    int32_t *sums = aligned_bytes(bytes);
    memset(sums, 0, (size_t)bytes);
    int8_t *to = (int8_t *)(sums + 16 * panels);
    for (int32_t o = 0; o < p->out_c; o++)
        for (int32_t i = 0; i < p->kernel_h; i++)
            for (int32_t j = 0; j < run; j++) {
                const int8_t v = w[(o * p->kernel_h + i) * run + j];
                sums[o] += v;
                to[(((o / 16 * p->kernel_h + i) * fours + j / 4) * 16 + o % 16) * 4 + j % 4] = v;
            }
    return sums;
}

KERNEL_TEST(conv_few_channels_s8) {
    const int quads = strcmp(k->isa->name, "avx512vnni") == 0;
    for (int round = 0; round < 300; round++) {
        lb_conv_few_channels_s8_params p = {.batch = random_int(0, 2), .in_h = random_int(1, 12), .in_w = random_int(1, 40), .groups = 1};
        p.in_c = random_int(1, 5), p.out_c = channels[random_int(0, COUNT(channels) - 1)];
        p.kernel_h = random_int(1, 7), p.kernel_w = random_int(1, 7);
        p.stride_h = random_int(1, 3), p.stride_w = random_int(1, 3);
        p.dilation_h = random_int(0, 3) ? 1 : 2, p.dilation_w = 1;
        p.pad_h = random_int(0, 3), p.pad_w = random_int(0, 3);
        const int32_t high = p.in_h + p.pad_h + random_int(0, 3) - (p.kernel_h - 1) * p.dilation_h - 1;
        const int32_t wide = p.in_w + p.pad_w + random_int(0, 3) - p.kernel_w;
        if (high < 0 || wide < 0)
            continue;
        p.out_h = high / p.stride_h + 1, p.out_w = wide / p.stride_w + 1;
        p.block = random_int(1, 5), p.out_stride = p.out_c + random_int(0, 1) * 7;
        p.x_zero = random_int(-128, 127), p.lo = random_int(-128, 0), p.hi = random_int(0, 127), p.y_zero = random_int(p.lo, p.hi);
        int8_t *x = bytes_of((int64_t)p.batch * p.in_h * p.in_w * p.in_c);
        int8_t *w = bytes_of((int64_t)p.out_c * p.kernel_h * p.kernel_w * p.in_c);
        fill_channels(p.out_c);
        void *packed = quads ? few_channels_dot4(&p, w) : few_channels_weights(&p, w);
        const int64_t rows = (p.block - 1) * p.stride_h + (p.kernel_h - 1) * p.dilation_h + 1;
        const int64_t across = quads && p.out_w < 16 ? 16 : p.out_w, reach = ((across - 1) * p.stride_w + p.kernel_w) * p.in_c;
        const int64_t pitch = quads ? (reach + 63) / 64 * 64 + 64 : 2 * ((reach + 15) / 16 * 16 + 16);
        expect_same_weights(ref, k, &p, x, w, packed, rows * pitch, (size_t)(p.batch * p.out_h * p.out_w * p.out_stride),
                            p.batch * p.out_h);
        free(x), free(w), free(packed);
    }
}

/* Weights of conv_stride2_winograd_s8 as its contract says. */
static int16_t *stride2_winograd_weights(const lb_conv_stride2_winograd_s8_params *p, const int8_t *w) {
    static const int32_t g[6][4] = {{1, 0, 0, 0}, {-1, -1, -1, -1}, {-1, 1, -1, 1}, {1, 2, 4, 8}, {1, -2, 4, -8}, {0, 0, 0, 1}};
    const int32_t depth = 4 * p->in_c;
    const int64_t bytes = (int64_t)((p->out_c + 15) / 16) * 36 * depth * 16 * 2;
    int16_t *to = aligned_bytes(bytes);
    memset(to, 0, (size_t)bytes);
    for (int32_t o = 0; o < p->out_c; o++)
        for (int32_t i = 0; i < p->kernel_h; i++)
            for (int32_t j = 0; j < p->kernel_w; j++)
                for (int32_t l = 0; l < p->in_c; l++) {
                    const int32_t row = i + p->pad_h % 2, column = j + p->pad_w % 2, c = (row % 2 * 2 + column % 2) * p->in_c + l;
                    for (int32_t q = 0; q < 36; q++) {
                        int16_t *u = &to[(((o / 16 * 36 + q) * depth / 2 + c / 2) * 16 + o % 16) * 2 + c % 2];
                        *u = (int16_t)(*u + g[q / 6][row / 2] * g[q % 6][column / 2] *
                                                w[((o * p->kernel_h + i) * p->kernel_w + j) * p->in_c + l]);
                    }
                }
    return to;
}

KERNEL_TEST(conv_stride2_winograd_s8) {
    for (int round = 0; round < 200; round++) {
        lb_conv_stride2_winograd_s8_params p = {
            .batch = random_int(0, 2), .in_h = random_int(1, 15), .in_w = random_int(1, 22), .groups = 1};
        p.in_c = random_int(1, 4), p.out_c = channels[random_int(0, COUNT(channels) - 1)];
        p.stride_h = p.stride_w = 2, p.dilation_h = p.dilation_w = 1;
        p.pad_h = random_int(0, 4), p.pad_w = random_int(0, 4);
        p.kernel_h = random_int(1, 8 - p.pad_h % 2), p.kernel_w = random_int(1, 8 - p.pad_w % 2);
        const int32_t high = p.in_h + p.pad_h + random_int(0, 3) - p.kernel_h, wide = p.in_w + p.pad_w + random_int(0, 3) - p.kernel_w;
        if (high < 0 || wide < 0)
            continue;
        p.out_h = high / 2 + 1, p.out_w = wide / 2 + 1;
        p.block = random_int(1, 9), p.out_stride = p.out_c + random_int(0, 1) * 7;
        p.x_zero = random_int(-128, 127), p.lo = random_int(-128, 0), p.hi = random_int(0, 127), p.y_zero = random_int(p.lo, p.hi);
        const int64_t pixels = (int64_t)p.batch * p.in_h * p.in_w * p.in_c, taps = (int64_t)p.out_c * p.kernel_h * p.kernel_w * p.in_c;
        int8_t *x = bytes_of(pixels), *w = bytes_of(taps);
        if (round % 4 == 0) { /* the largest sums */
            memset(x, random_int(0, 1) ? -128 : 127, (size_t)pixels), memset(w, random_int(0, 1) ? -128 : 127, (size_t)taps);
            p.x_zero = random_int(0, 1) ? -128 : 127;
        }
        fill_channels(p.out_c);
        int16_t *packed = stride2_winograd_weights(&p, w);
        expect_same_weights(ref, k, &p, x, w, packed, 576 * ((p.out_w + 2) / 3 + 1) + 3456 * p.block,
                            (size_t)(p.batch * p.out_h * p.out_w * p.out_stride), p.batch * ((p.out_h + 2) / 3));
        free(x), free(w), free(packed);
    }
}

/* Weights of dwconv_s8 as its contract says, in pairs of rows. */
static void *dwconv_pairs(const lb_dwconv_s8_params *p, const int8_t *w) {
    const int32_t c = (p->channels + 31) / 32 * 32, upper = (p->kernel_h + 1) / 2, lower = (p->kernel_h + 2) / 2;
    const int64_t bytes = 4 * c + 4 * (int64_t)(upper + lower) * p->kernel_w * c;
    int32_t *sums = aligned_bytes(bytes);
    memset(sums, 0, (size_t)bytes);
    int16_t *pairs[2] = {(int16_t *)(void *)(sums + c), (int16_t *)(void *)(sums + c) + upper * p->kernel_w * c * 2};
    for (int32_t i = 0; i < p->kernel_h; i++)
        for (int32_t j = 0; j < p->kernel_w; j++)
            for (int32_t l = 0; l < p->channels; l++) {
                const int8_t v = w[(i * p->kernel_w + j) * p->channels + l];
                sums[l] += v;
                for (int32_t start = 0; start < 2; start++)
                    pairs[start][(((i + start) / 2 * p->kernel_w + j) * c + l) * 2 + (i + start) % 2] = v;
            }
    return sums;
}

/* The same in quads of rows. */
static void *dwconv_quads(const lb_dwconv_s8_params *p, const int8_t *w) {
    const int32_t blocks = (p->channels + 63) / 64, quads = (p->kernel_h + 3) / 4;
    const int32_t n = p->dilation_h == 1 && (p->stride_h + p->kernel_h + 3) / 4 == quads ? 2 : 1;
    const int64_t bytes = 256 * blocks * (1 + (int64_t)quads * p->kernel_w * n);
    int32_t *sums = aligned_bytes(bytes);
    memset(sums, 0, (size_t)bytes);
    int8_t *to = (int8_t *)(sums + 64 * blocks);
    for (int32_t group = 0; group < 4 * blocks; group++) {
        const int32_t rest = p->channels - group / 4 * 64, size = rest > 32 ? 64 : rest > 16 ? 32 : 16;
        const int32_t first = p->channels < size ? 0 : rest < size ? p->channels - size : group / 4 * 64;
        for (int32_t l = 0; l < 16; l++) {
            const int32_t c = first + (16 * (l / 4) + 4 * (group % 4) + l % 4) % size;
            for (int32_t i = 0; c < p->channels && i < p->kernel_h * n; i++)
                for (int32_t j = 0; j < p->kernel_w; j++) {
                    const int8_t v = w[(i / n * p->kernel_w + j) * p->channels + c];
                    const int32_t row = i / n + i % n * p->stride_h;
                    sums[16 * group + l] += i % n ? 0 : v;
                    to[((((group * quads + row / 4) * p->kernel_w + j) * n + i % n) * 16 + l) * 4 + row % 4] = v;
                }
        }
    }
    return sums;
}

KERNEL_TEST(dwconv_s8) {
    for (int round = 0; round < 500; round++) {
        lb_dwconv_s8_params p = {.batch = random_int(0, 2), .in_h = random_int(1, 9), .in_w = random_int(1, 12)};
        p.channels = channels[random_int(0, COUNT(channels) - 1)];
        p.kernel_h = random_int(1, 7), p.kernel_w = random_int(1, 7);
        if (round % 2)
            p.kernel_h = p.kernel_w = round % 4 == 1 ? 3 : 5;
        if (round % 8 > 5)
            p.in_h = random_int(1, 4), p.in_w = random_int(8, 40);
        p.stride_h = random_int(1, 3), p.stride_w = random_int(1, 3);
        p.dilation_h = random_int(0, 3) ? 1 : 2, p.dilation_w = random_int(0, 3) ? 1 : 2;
        p.pad_h = random_int(0, 3) + (round % 8 == 7) * random_int(0, 4), p.pad_w = random_int(0, 3);
        const int32_t high = p.in_h + p.pad_h + random_int(0, p.pad_h + 2) - (p.kernel_h - 1) * p.dilation_h - 1;
        const int32_t wide = p.in_w + p.pad_w + random_int(0, 2) - (p.kernel_w - 1) * p.dilation_w - 1;
        if (high < 0 || wide < 0)
            continue;
        p.out_h = high / p.stride_h + 1, p.out_w = wide / p.stride_w + 1;
        p.block = random_int(1, round % 8 > 5 ? 40 : 14), p.block_rows = random_int(0, 1) ? random_int(2, 9) : 1;
        p.out_stride = p.channels + random_int(0, 1) * 5;
        p.x_zero = random_int(-128, 127), p.lo = random_int(-128, 0), p.hi = random_int(0, 127), p.y_zero = random_int(p.lo, p.hi);
        if (round % 3)
            p.lo = -128, p.hi = 127;
        int8_t *x = bytes_of((int64_t)p.batch * p.in_h * p.in_w * p.channels);
        int8_t *w = bytes_of((int64_t)p.kernel_h * p.kernel_w * p.channels);
        fill_channels(p.channels);
        const int by_quads = !strcmp(k->isa->name, "avx512vnni");
        void *packed = by_quads ? dwconv_quads(&p, w) : dwconv_pairs(&p, w);
        const int64_t columns = (p.block - 1) * p.stride_w + (p.kernel_w - 1) * p.dilation_w + 1;
        const int64_t pairs = ((p.block_rows - 1) * p.stride_h + p.kernel_h) / 2 + 1, quads = (p.kernel_h + 3) / 4;
        const int64_t positions = p.stride_w * (p.block + 4 + (p.kernel_w - 1) * p.dilation_w / p.stride_w);
        expect_same_weights(ref, k, &p, x, w, packed, by_quads ? 256 * quads * positions : 128 * pairs * columns,
                            (size_t)(p.batch * p.out_h * p.out_w * p.out_stride), p.batch * p.out_h);
        free(x), free(w), free(packed);
    }
}

/* Weights of an axis: any taps of any line, weights of both signs whose magnitudes sum to less than 2^11. */
static void fill_axis(int32_t n, int32_t out, int32_t taps, int32_t *at, int16_t *by) {
    for (int32_t i = 0; i < out * taps; i++)
        at[i] = random_int(0, n - 1), by[i] = (int16_t)random_int(-2047 / taps, 2047 / taps);
}

KERNEL_TEST(resize_s8) {
    static const int32_t widths[] = {1, 3, 15, 16, 17, 31, 32, 40};
    for (int round = 0; round < 200; round++) {
        int32_t row_at[64], column_at[64];
        int16_t row_by[64], column_by[64];
        lb_resize_s8_params p = {.batch = random_int(0, 2), .in_h = random_int(1, 6), .in_w = random_int(1, 6)};
        p.channels = widths[random_int(0, COUNT(widths) - 1)], p.out_h = random_int(1, 9), p.out_w = random_int(1, 9);
        p.row_taps = random_int(1, 4), p.column_taps = random_int(1, 5);
        p.offset = random_int(-(1 << 29), 1 << 29) & (round % 3 ? -1 : 0), p.multiplier = 0x1p-22f * (float)random_int(1, 200);
        p.lo = random_int(-128, 0), p.hi = random_int(0, 127), p.y_zero = random_int(p.lo, p.hi);
        fill_axis(p.in_h, p.out_h, p.row_taps, row_at, row_by), fill_axis(p.in_w, p.out_w, p.column_taps, column_at, column_by);
        int8_t *const image = bytes_of((int64_t)p.batch * p.in_h * p.in_w * p.channels);
        void *args[6] = {image, row_at, row_by, column_at, column_by};
        expect_same(ref, k, &p, args, 5, (size_t)(p.batch * p.out_h * p.out_w * p.channels), (size_t)round % 3, p.batch * p.out_h);
        free(image);
    }
}
