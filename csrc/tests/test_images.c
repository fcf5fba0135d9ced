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

static const lb_kernel *portable(const char *contract, const char *end) {
    for (int i = 0; i < lb_kernel_count; i++) {
        const char *name = lb_kernels[i].contract->name;
        const size_t n = strlen(contract);
        if (!strncmp(name, contract, n) && !strcmp(name + n, end) && !strcmp(lb_kernels[i].isa->name, "ref"))
            return &lb_kernels[i];
    }
    abort();
}

/* Fields of an image and its window that params of other contracts have, too. */
#define LB_GEOMETRY(p)                                                                                                                     \
    .batch = (p).batch, .in_h = (p).in_h, .in_w = (p).in_w, .out_h = (p).out_h, .out_w = (p).out_w, .kernel_h = (p).kernel_h,              \
    .kernel_w = (p).kernel_w, .stride_h = (p).stride_h, .stride_w = (p).stride_w, .pad_h = (p).pad_h, .pad_w = (p).pad_w,                  \
    .dilation_h = (p).dilation_h, .dilation_w = (p).dilation_w

/* The number of an instruction set that packs weights. */
static int32_t number_of(const lb_isa *isa) {
    return !strcmp(isa->name, "avx2") ? LB_ISA_avx2 : !strcmp(isa->name, "avx512vnni") ? LB_ISA_avx512vnni : LB_ISA_ref;
}

/* Weights as a contract's _pack makes them, in as many bytes as its _sizes says: each of them is written, whatever stood there. The caller
 * frees them. */
static void *packed_by(const char *contract, const void *size_params, const void *params, const int8_t *w) {
    int64_t sizes[5];
    void *size_args[1] = {sizes};
    portable(contract, "_sizes")->call(size_params, size_args, 0, 0);
    void *made[2];
    for (int i = 0; i < 2; i++) {
        made[i] = aligned_bytes(sizes[0]);
        memset(made[i], i ? 0xFF : 0, (size_t)sizes[0]);
        void *args[2] = {(void *)(uintptr_t)w, made[i]};
        portable(contract, "_pack")->call(params, args, 0, 0);
    }
    expect(!memcmp(made[0], made[1], (size_t)sizes[0]), "packing writes every byte");
    free(made[0]);
    return made[1];
}

static int64_t scratch_of_tiles(int wide, int32_t in_c, int32_t tile_h, int64_t block) {
    const int64_t points = 6 * (tile_h + 2);
    return wide ? block * (points * (2 * ((in_c + 31) / 32 * 32) + 128) + 64) + 49152 : points * block * (2 * ((in_c + 15) / 16 * 16) + 68);
}

static const int32_t packing[] = {LB_ISA_avx2, LB_ISA_avx512vnni};

KERNEL_TEST(conv3x3_s8_sizes) {
    (void)ref;
    for (int round = 0; round < 300; round++) {
        lb_conv3x3_s8_sizes_params p = {.batch = random_int(1, 4), .out_h = random_int(1, 60), .out_w = random_int(1, 60)};
        p.in_c = random_int(1, 300), p.out_c = random_int(1, 300), p.threads = random_int(1, 8), p.isa = packing[round % 2];
        static const int32_t largest[] = {(1 << 25) - 1, 1 << 25, (1 << 27) - 1, 1 << 27, INT32_MAX};
        p.largest = largest[random_int(0, COUNT(largest) - 1)];
        int64_t sizes[5];
        void *args[1] = {sizes};
        k->call(&p, args, 0, 0);
        expect(!sizes[2] || (sizes[2] == 4 && p.largest < 1 << 25) || (sizes[2] == 2 && p.largest < 1 << 27), "tiles are exact");
        expect(sizes[3] >= 1 && sizes[4] >= 16 && sizes[4] % 16 == 0, "blocks are not empty");
        if (sizes[2])
            expect(sizes[1] == scratch_of_tiles(round % 2, p.in_c, (int32_t)sizes[2], sizes[3]), "scratch of conv3x3_s8");
    }
}

KERNEL_TEST(conv3x3_s8_pack) {
    (void)ref, (void)k;
    for (int round = 0; round < 40; round++) {
        lb_conv3x3_s8_sizes_params p = {.batch = 1, .out_h = 8, .out_w = 8, .in_c = random_int(1, 70), .out_c = random_int(1, 70)};
        p.tile_h = round % 4 / 2 * 2 + 2, p.isa = packing[round % 2], p.threads = 1;
        int8_t *w = bytes_of((int64_t)9 * p.in_c * p.out_c);
        free(packed_by("conv3x3_s8", &p, &(lb_conv3x3_s8_pack_params){p.in_c, p.out_c, p.tile_h, p.isa}, w));
        free(w);
    }
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
        const int64_t pixels = (int64_t)p.batch * p.in_h * p.in_w * p.in_c;
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
        const lb_conv3x3_s8_sizes_params sizes = {.batch = p.batch,
                                                  .out_h = p.out_h,
                                                  .out_w = p.out_w,
                                                  .in_c = p.in_c,
                                                  .out_c = p.out_c,
                                                  .isa = number_of(k->isa),
                                                  .tile_h = p.tile_h,
                                                  .threads = 1};
        void *packed =
            is_plain(k) ? NULL : packed_by("conv3x3_s8", &sizes, &(lb_conv3x3_s8_pack_params){p.in_c, p.out_c, p.tile_h, sizes.isa}, w);
        const int64_t scratch = scratch_of_tiles(wide, p.in_c, p.tile_h, p.block);
        const int32_t tiles = p.batch * ((p.out_h + p.tile_h - 1) / p.tile_h) * ((p.out_w + 3) / 4);
        const int32_t items = (tiles + p.block - 1) / p.block * ((p.out_c + p.block_columns - 1) / p.block_columns);
        expect_same_weights(ref, k, &p, x, w, packed, scratch, (size_t)(p.batch * p.out_h * p.out_w * p.out_stride), items);
        free(x), free(w), free(packed);
    }
}

static int64_t scratch_of_runs(int quads, const lb_conv_few_channels_s8_sizes_params *p, int64_t block) {
    const int64_t rows = (block - 1) * p->stride_h + (p->kernel_h - 1) * p->dilation_h + 1;
    const int64_t across = quads && p->out_w < 16 ? 16 : p->out_w, reach = ((across - 1) * p->stride_w + p->kernel_w) * p->in_c;
    return rows * (quads ? (reach + 63) / 64 * 64 + 64 : 2 * ((reach + 15) / 16 * 16 + 16));
}

static lb_conv_few_channels_s8_sizes_params few_channels(int round, int32_t stride) {
    lb_conv_few_channels_s8_sizes_params p = {.batch = 1, .in_h = random_int(7, 60), .in_w = random_int(7, 60)};
    p.in_c = random_int(1, 4), p.out_c = random_int(1, 70), p.stride_h = p.stride_w = stride, p.dilation_h = p.dilation_w = 1;
    p.pad_h = random_int(0, 3), p.pad_w = random_int(0, 3), p.kernel_h = random_int(1, 7), p.kernel_w = random_int(1, 7);
    p.out_h = (p.in_h + p.pad_h - p.kernel_h) / stride + 1, p.out_w = (p.in_w + p.pad_w - p.kernel_w) / stride + 1;
    p.isa = packing[round % 2];
    return p;
}

KERNEL_TEST(conv_few_channels_s8_sizes) {
    (void)ref;
    for (int round = 0; round < 100; round++) {
        const lb_conv_few_channels_s8_sizes_params p = few_channels(round, random_int(1, 3));
        int64_t sizes[3];
        void *args[1] = {sizes};
        k->call(&p, args, 0, 0);
        expect(sizes[2] >= 1 && sizes[1] == scratch_of_runs(round % 2, &p, sizes[2]), "scratch of conv_few_channels_s8");
    }
}

KERNEL_TEST(conv_stride2_winograd_s8_sizes) {
    (void)ref;
    for (int round = 0; round < 100; round++) {
        const lb_conv_few_channels_s8_sizes_params p = few_channels(0, 2);
        int64_t sizes[3];
        void *args[1] = {sizes};
        k->call(&p, args, 0, 0);
        expect(sizes[2] >= 1 && sizes[1] == 576 * ((p.out_w + 2) / 3 + 1) + 3456 * sizes[2], "scratch of conv_stride2_winograd_s8");
    }
}

static void test_few_channels_pack(const lb_kernel *ref, const lb_kernel *k, const char *contract, int isas) {
    (void)ref, (void)k;
    for (int round = 0; round < 40; round++) {
        const lb_conv_few_channels_s8_sizes_params p = few_channels(round % isas, 2);
        int8_t *w = bytes_of((int64_t)p.out_c * p.kernel_h * p.kernel_w * p.in_c);
        free(packed_by(contract, &p, &p, w));
        free(w);
    }
}
TESTED_WITH(conv_few_channels_s8_pack, test_few_channels_pack, "conv_few_channels_s8", 2)
TESTED_WITH(conv_stride2_winograd_s8_pack, test_few_channels_pack, "conv_stride2_winograd_s8", 1)

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
        const lb_conv_few_channels_s8_sizes_params sizes = {LB_GEOMETRY(p), .in_c = p.in_c, .out_c = p.out_c, .isa = number_of(k->isa)};
        void *packed = is_plain(k) ? NULL : packed_by("conv_few_channels_s8", &sizes, &sizes, w);
        expect_same_weights(ref, k, &p, x, w, packed, scratch_of_runs(quads, &sizes, p.block),
                            (size_t)(p.batch * p.out_h * p.out_w * p.out_stride), p.batch * p.out_h);
        free(x), free(w), free(packed);
    }
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
        const lb_conv_few_channels_s8_sizes_params sizes = {LB_GEOMETRY(p), .in_c = p.in_c, .out_c = p.out_c, .isa = number_of(k->isa)};
        void *packed = is_plain(k) ? NULL : packed_by("conv_stride2_winograd_s8", &sizes, &sizes, w);
        expect_same_weights(ref, k, &p, x, w, packed, 576 * ((p.out_w + 2) / 3 + 1) + 3456 * p.block,
                            (size_t)(p.batch * p.out_h * p.out_w * p.out_stride), p.batch * ((p.out_h + 2) / 3));
        free(x), free(w), free(packed);
    }
}

static int64_t scratch_of_rows(int by_quads, const lb_dwconv_s8_sizes_params *p, int64_t block, int64_t block_rows) {
    const int64_t columns = (block - 1) * p->stride_w + (p->kernel_w - 1) * p->dilation_w + 1;
    const int64_t pairs = ((block_rows - 1) * p->stride_h + p->kernel_h) / 2 + 1, quads = (p->kernel_h + 3) / 4;
    const int64_t positions = p->stride_w * (block + 4 + (p->kernel_w - 1) * p->dilation_w / p->stride_w);
    return by_quads ? 256 * quads * positions : 128 * pairs * columns;
}

static void test_dwconv_packing(const lb_kernel *ref, const lb_kernel *k, int packs) {
    (void)ref;
    for (int round = 0; round < 100; round++) {
        lb_dwconv_s8_sizes_params p = {.batch = 1, .in_h = random_int(1, 70), .in_w = random_int(1, 70), .channels = random_int(1, 150)};
        p.kernel_h = random_int(1, 7), p.kernel_w = random_int(1, 7), p.stride_h = random_int(1, 3), p.stride_w = random_int(1, 3);
        p.dilation_h = random_int(1, 2), p.dilation_w = random_int(1, 2), p.isa = packing[round % 2];
        if (!RANDOM_OUTPUT(p, 3))
            continue;
        int64_t sizes[5];
        void *args[1] = {sizes};
        int8_t *w = bytes_of((int64_t)p.kernel_h * p.kernel_w * p.channels);
        if (packs)
            free(packed_by("dwconv_s8", &p, &p, w));
        else {
            k->call(&p, args, 0, 0);
            expect(sizes[2] >= 1 && sizes[3] >= 1 && sizes[1] == scratch_of_rows(round % 2, &p, sizes[2], sizes[3]),
                   "scratch of dwconv_s8");
        }
        free(w);
    }
}
TESTED_WITH(dwconv_s8_sizes, test_dwconv_packing, 0)
TESTED_WITH(dwconv_s8_pack, test_dwconv_packing, 1)

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
        const lb_dwconv_s8_sizes_params sizes = {LB_GEOMETRY(p), .channels = p.channels, .isa = number_of(k->isa)};
        void *packed = is_plain(k) ? NULL : packed_by("dwconv_s8", &sizes, &sizes, w);
        expect_same_weights(ref, k, &p, x, w, packed, scratch_of_rows(by_quads, &sizes, p.block, p.block_rows),
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
