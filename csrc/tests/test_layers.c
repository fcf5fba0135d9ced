/* Kernels of networks, every instruction set against `ref`, and `ref` against formulas where a formula is shorter than the kernel:
 * sizes around the tiles, strides, dilations, padding, groups, extremes, and items in two parts. */
#ifdef __linux__
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <sys/mman.h>
#endif

#include "base/numerics.h"
#include "test_support.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(list) ((int32_t)(sizeof list / sizeof *list))

/* MANY columns: so many that AVX2 brings rows into a form of their own. Boards have no such kernels, nor room for the weights. */
#ifdef __linux__
enum { MANY = 720 };
#else
enum { MANY = 256 };
#endif
enum { MAX_X = 1 << 15, MAX_W = 1 << 19, MAX_CHANNELS = MANY };

static _Alignas(64) int8_t x[2 * MAX_X], w[MAX_W]; /* MAX_X elements of one or two bytes */
static int32_t bias[MAX_CHANNELS];
static float multiplier[MAX_CHANNELS];

/* Random bytes, or now and then only the extremes, or near the least, as after a relu, but for some that are not. */
static void fill(int8_t *to, int32_t n) {
    const int kind = random_int(0, 3), most = random_int(-128, 0), often = random_int(1, 64);
    for (int32_t i = 0; i < n; i++)
        to[i] = (int8_t)(kind == 0   ? (random_u32() & 1 ? 127 : -128)
                         : kind == 1 ? random_int(-128, 127)
                                     : random_int(-128, random_int(0, often) ? most : 127));
}

/* Bytes up to `spread` from a zero point, or now and then anywhere. */
static void fill_near(int8_t *to, int32_t n, int32_t zero, int32_t spread) {
    const int anywhere = random_int(0, 2) * 8;
    for (int32_t i = 0; i < n; i++)
        to[i] = (int8_t)(anywhere && random_int(0, anywhere) == 0 ? random_int(-128, 127)
                                                                  : lb_clamp(zero + random_int(-spread, spread), -128, 127));
}

static void fill_channels(int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        bias[i] = random_int(-100000, 100000);
        multiplier[i] = (float)random_int(1, 1 << 20) * (random_int(0, 7) ? 1e-9f : 1e3f); /* some saturate */
    }
}

static const lb_kernel *kernel_of(const char *contract, const lb_isa *isa) {
    for (int i = 0; i < lb_kernel_count; i++)
        if (lb_kernels[i].isa == isa && strcmp(lb_kernels[i].contract->name, contract) == 0)
            return &lb_kernels[i];
    return NULL;
}

/* That of an instruction set which takes weights as `ref` does is the one of `ref`, which stands first. */
static const lb_kernel *packing(const char *contract, const lb_isa *isa) {
    const lb_kernel *own = kernel_of(contract, isa);
    for (int i = 0; !own; i++)
        own = strcmp(lb_kernels[i].contract->name, contract) == 0 ? &lb_kernels[i] : NULL;
    return own;
}

/* Instruction sets that take weights as linear_s8_pack_dot4 makes them. */
static int takes_quads(const lb_isa *isa) {
    static const char *names[] = {"avxvnni", "avx512vnni", "neon", "neondot"};
    for (int32_t i = 0; i < COUNT(names); i++)
        if (strcmp(isa->name, names[i]) == 0)
            return 1;
    return 0;
}

/* Scratch of linear_s8 and conv_s8, of which `said` are those of linear_s8_sizes. */
static int64_t room(const lb_isa *isa, int64_t said, int32_t k, int32_t out_c) {
    if (strcmp(isa->name, "armdsp") == 0)
        return 2 * k;
    return strcmp(isa->name, "mve") == 0 ? 4 * out_c + k : said + (k + 63) / 64 * 64;
}

/* Weights of `n` columns: of all sizes, extremes, small ones (of which many sums fit 16 bits), and small ones with a column in eight or
 * an element in eight as large as can be. */
static void fill_weights(int32_t n, int32_t k) {
    const int kind = random_int(0, 5);
    for (int32_t j = 0; j < n; j++)
        for (int32_t i = 0; i < k; i++) {
            const int large = kind == 1 || (kind == 3 && j % 8 == 0) || (kind == 4 && j < 8) || (kind == 5 && random_int(0, 7) == 0);
            const int edge = kind == 4 ? -128 : random_u32() & 1 ? 127 : -128;
            w[j * k + i] = (int8_t)(large ? edge : kind == 0 ? random_int(-128, 127) : random_int(-20, 20));
        }
}

enum { BEHIND = 64 }; /* bytes that stay as they are */

#ifdef __linux__
enum { PAGE = 1 << 12 };
static size_t walled_bytes; /* of the one block that ends at a guard page */
#endif

/* Bytes right before memory that nobody may read, where there is such a thing: loads in assembly go unseen by sanitizers. */
static void *walled(const void *from, size_t bytes) {
    const size_t used = (bytes + 63) / 64 * 64;
#ifdef __linux__
    const size_t all = (used + PAGE - 1) / PAGE * PAGE + PAGE;
    char *map = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED || mprotect(map + all - PAGE, PAGE, PROT_NONE))
        abort();
    char *to = map + all - PAGE - used;
    walled_bytes = all;
#else
    char *to = aligned_alloc(64, used + (used ? 0 : 64));
    if (!to)
        abort();
#endif
    memcpy(to, from, bytes);
    return to;
}

static void free_packed(void *weights) {
#ifdef __linux__
    if (walled_bytes) {
        munmap((char *)weights - (uintptr_t)weights % PAGE, walled_bytes);
        walled_bytes = 0;
        return;
    }
#endif
    free(weights);
}

/* Weights (n, k) as a kernel of `isa` wants them for products of about `rows` rows, `groups` times; and scratch for `m` rows, with 0x5A
 * after it. The caller frees both (free_packed). Where there is one group, only what it used is left, and a step too far is seen. */
static void *packed(const lb_isa *isa, int32_t rows, int32_t activations, int32_t m, int32_t k, int32_t n, int32_t groups, void **scratch,
                    int64_t *scratch_bytes) {
    if (takes_quads(isa)) {
        const lb_linear_s8_pack_dot4_params q = {k, n};
        const int64_t each = 64 + (n + 15) / 16 * 16 * (4 + (k + 3) / 4 * 4);
        char *all = aligned_alloc(64, (size_t)(each * groups));
        if (!all)
            abort();
        for (int32_t g = 0; g < groups; g++) {
            void *args[2] = {w + (ptrdiff_t)g * n * k, all + each * g};
            packing("linear_s8_pack_dot4", isa)->call(&q, args, 0, 0);
        }
        *scratch_bytes = 64 * m * ((k + 63) / 64 | 1), *scratch = aligned_bytes(*scratch_bytes + BEHIND);
        return all;
    }
    int64_t bytes[3], used = 0;
    const lb_linear_s8_sizes_params sizes = {m, k, n};
    const lb_linear_s8_pack_params p = {rows, k, n, activations};
    void *size_args[1] = {bytes};
    packing("linear_s8_sizes", isa)->call(&sizes, size_args, 0, 0);
    *scratch_bytes = room(isa, bytes[1], k, n * groups), *scratch = aligned_bytes(*scratch_bytes + BEHIND);
    char *all = aligned_bytes(bytes[0] * groups), *work = aligned_bytes(bytes[2]);
    for (int32_t g = 0; g < groups; g++) {
        void *args[4] = {w + (ptrdiff_t)g * n * k, all + bytes[0] * g, &used, work};
        packing("linear_s8_pack", isa)->call(&p, args, 0, 0);
        expect(used <= bytes[0], "packed weights need no more than they were said to");
    }
    free(work);
    if (groups > 1)
        return all;
    void *cut = walled(all, (size_t)used);
    free(all);
    return cut;
}

/* expect_same for kernels whose weights and scratch depend on the instruction set: args are x, w, what follows them, out, scratch. */
static void expect_same_behind(const lb_kernel *ref, const lb_kernel *k, const void *p, int32_t m, int32_t depth, int32_t n, int32_t groups,
                               void *const *behind, int32_t count, size_t bytes, int32_t items) {
    static _Alignas(64) unsigned char want[1 << 16];
    const int32_t about = random_int(0, 1) ? random_int(0, 3) : 100, activations = random_int(0, 2);
    int64_t scratch_bytes;
    void *scratch, *weights = packed(ref->isa, about, activations, m, depth, n, groups, &scratch, &scratch_bytes);
    void *args[7] = {x + 1, weights};
    void **out = args + 2 + count, **work = out + 1;
    memcpy(args + 2, behind, (size_t)count * sizeof *args);
    *out = want, *work = scratch;
    if (bytes + 64 > sizeof want)
        abort();
    memset(want, 0xA5, bytes + 64);
    ref->call(p, args, 0, items);
    free_packed(weights), free(scratch);
    weights = packed(k->isa, about, activations, m, depth, n, groups, &scratch, &scratch_bytes);
    unsigned char *got = malloc(bytes + 64);
    if (!got)
        abort();
    memset(got, 0xA5, bytes + 64);
    args[1] = weights, *out = got, *work = scratch;
    const int32_t cut = items ? random_int(0, items) : 0;
    k->call(p, args, cut, items);
    k->call(p, args, 0, cut);
    expect_equal(k, want, got, bytes + 64, 0);
    int kept = 1;
    for (int64_t i = 0; i < BEHIND; i++)
        kept &= ((const char *)scratch)[scratch_bytes + i] == 0x5A;
    expect(kept, "a kernel writes no further than its scratch");
    free_packed(weights), free(scratch), free(got);
}

/* The same with args x, w, bias, multiplier, out, scratch. */
static void expect_same_packed(const lb_kernel *ref, const lb_kernel *k, const void *p, int32_t m, int32_t depth, int32_t n, int32_t groups,
                               size_t bytes, int32_t items) {
    void *behind[2] = {bias, multiplier};
    expect_same_behind(ref, k, p, m, depth, n, groups, behind, 2, bytes, items);
}

static const int32_t channels[] = {1, 2, 3, 5, 8, 15, 16, 17, 24, 32, 33, 48};

static void test_conv(const lb_kernel *ref, const lb_kernel *k, size_t element) {
    for (int round = 0; round < 300; round++) {
        lb_conv_s8_params p = {
            .batch = random_int(0, 2), .in_h = random_int(1, 9), .in_w = random_int(1, 9), .groups = random_int(0, 3) ? 1 : 3};
        p.in_c = channels[random_int(0, COUNT(channels) - 1)] * p.groups;
        p.out_c = channels[random_int(0, p.groups == 1 ? COUNT(channels) - 1 : 7)] * p.groups;
        p.kernel_h = random_int(1, 3), p.kernel_w = random_int(1, 3);
        if (round % 4 == 0)
            p.kernel_h = p.kernel_w = 1;
        p.stride_h = random_int(1, 2), p.stride_w = random_int(1, 2);
        p.dilation_h = random_int(1, 2), p.dilation_w = random_int(1, 2);
        p.pad_h = random_int(0, 2), p.pad_w = random_int(0, 2);
        p.out_h = (p.in_h + p.pad_h + random_int(0, 2) - (p.kernel_h - 1) * p.dilation_h - 1) / p.stride_h + 1;
        p.out_w = (p.in_w + p.pad_w + random_int(0, 2) - (p.kernel_w - 1) * p.dilation_w - 1) / p.stride_w + 1;
        if (p.out_h < 1 || p.out_w < 1 || p.out_c > MAX_CHANNELS)
            continue;
        p.block = random_int(1, 40);
        p.out_stride = p.out_c + random_int(0, 1) * 7;
        p.x_zero = random_int(-128, 127), p.lo = random_int(-128, 0), p.hi = random_int(0, 127), p.y_zero = random_int(p.lo, p.hi);
        if (round % 2)
            p.lo = -128, p.hi = 127;
        const int32_t depth = p.kernel_h * p.kernel_w * p.in_c / p.groups, pixels = p.batch * p.out_h * p.out_w;
        fill(x, 1 + p.batch * p.in_h * p.in_w * p.in_c), fill_weights(p.out_c, depth), fill_channels(p.out_c);
        expect_same_packed(ref, k, &p, p.block, depth, p.out_c / p.groups, p.groups, element * (size_t)(pixels * p.out_stride),
                           (pixels + p.block - 1) / p.block);
    }
}

TESTED_WITH(conv_s8, test_conv, 1)
TESTED_WITH(conv_s8_s16, test_conv, 2)
TESTED_WITH(conv_s8_f32, test_conv, 4)

static void check_linear(const lb_kernel *ref, const lb_kernel *k, size_t element, int32_t rows, int32_t depth, int32_t n, int32_t spread) {
    lb_linear_s8_params p = {.rows = rows, .k = depth, .n = n, .out_stride = n + random_int(0, 3)};
    p.block_rows = random_int(1, 12), p.block_columns = 16 * random_int(1, 3);
    p.x_zero = random_int(-128, 127), p.lo = random_int(-128, 0), p.hi = random_int(0, 127), p.y_zero = random_int(p.lo, p.hi);
    fill(x, 1 + p.rows * p.k), fill_weights(p.n, p.k), fill_channels(p.n);
    if (spread)
        fill_near(x, 1 + p.rows * p.k, p.x_zero, spread);
    const int32_t items = (p.rows + p.block_rows - 1) / p.block_rows * ((p.n + p.block_columns - 1) / p.block_columns);
    expect_same_packed(ref, k, &p, p.block_rows, p.k, p.n, 1, element * (size_t)(p.rows * p.out_stride), items);
}

/* Activations after a relu of which every quad is cut in two parts, that fit into groups of two and leave two over. */
static void check_cut_quads(const lb_kernel *ref, const lb_kernel *k, size_t element) {
    const lb_linear_s8_params p = {
        .rows = 4, .k = 2048, .n = 16, .out_stride = 16, .block_rows = 4, .block_columns = 16, .x_zero = -128, .lo = -128, .hi = 127};
    memset(x, -128, MAX_X);
    for (int32_t q = 0; q < p.rows * p.k / 4; q++)
        if (q % (p.k / 4) < 256)
            x[1 + 4 * q + q % 2 * 2] = x[2 + 4 * q + q % 2 * 2] = 127;
    fill_weights(p.n, p.k), fill_channels(p.n);
    expect_same_packed(ref, k, &p, p.block_rows, p.k, p.n, 1, element * (size_t)(p.rows * p.out_stride), 1);
}

/* Activations after a relu, of so few quads that they are grouped all at once: each channel has a largest one, of which some are 0. */
static void check_few_quads(const lb_kernel *ref, const lb_kernel *k, size_t element) {
    static const int32_t depths[] = {49, 50, 63, 64, 65, 92, 96, 97, 127, 128, 129};
    const int32_t rows = random_int(1, 13), n = random_int(1, 50), sparse = random_int(0, 3);
    const lb_linear_s8_params p = {.rows = rows,
                                   .k = depths[random_int(0, COUNT(depths) - 1)],
                                   .n = n,
                                   .out_stride = n,
                                   .block_rows = rows,
                                   .block_columns = 64,
                                   .x_zero = -128,
                                   .lo = -128,
                                   .hi = 127};
    for (int32_t i = 0; i < p.k; i++) {
        const int32_t most = random_int(0, sparse) ? random_int(0, 40) : random_int(0, 255);
        for (int32_t r = 0; r < p.rows; r++)
            x[1 + r * p.k + i] = (int8_t)(random_int(0, 2) ? random_int(0, most) - 128 : most - 128);
    }
    fill_weights(p.n, p.k), fill_channels(p.n);
    expect_same_packed(ref, k, &p, p.block_rows, p.k, p.n, 1, element * (size_t)(p.rows * p.out_stride), 1);
}

/* Activations whose sums are just what a sum of int16 holds, and hold no more, with weights that are as large as can be. */
static void check_borders(const lb_kernel *ref, const lb_kernel *k, size_t element) {
    static const int8_t some[] = {0, 0, 0, 0, 0, 0, 1, -1, 31, -32, 42, 43, -43, -42, 63, 64, -64, 65, -65, 127, -127, -128};
    const lb_linear_s8_params p = {
        .rows = 8, .k = 259, .n = MANY - 20, .out_stride = MANY - 20, .block_rows = 8, .block_columns = MANY, .lo = -128, .hi = 127};
    for (int32_t i = 0; i < p.rows * p.k; i++)
        x[1 + i] = some[random_int(0, COUNT(some) - 1)];
    for (int32_t i = 0; i < p.n * p.k; i++)
        w[i] = (i / p.k + (i / p.k % 3 == 2 ? i % p.k : 0)) % 2 ? 127 : -128; /* columns of one, of the other, of both in turn */
    fill_channels(p.n);
    expect_same_packed(ref, k, &p, p.block_rows, p.k, p.n, 1, element * (size_t)(p.rows * p.out_stride), 1);
}

/* Activations far from their zero point, and so many rows and columns that products of halves are worth it; extremes among them. */
static void check_far(const lb_kernel *ref, const lb_kernel *k, size_t element, int32_t depth) {
    const int32_t rows = random_int(12, 20), n = depth > MAX_W / MANY ? MAX_W / depth : MANY;
    lb_linear_s8_params p = {.rows = rows, .k = depth, .n = random_int(n - 40, n), .lo = -128, .hi = 127};
    p.out_stride = p.n, p.block_rows = random_int(12, rows), p.block_columns = random_int(0, 1) ? MANY : 16 * random_int(1, 9);
    p.x_zero = random_int(-128, 127), p.y_zero = random_int(-128, 127);
    const int edges = random_int(0, 2); /* everywhere, here and there, nowhere */
    for (int32_t i = 0; i < p.rows * p.k; i++)
        x[1 + i] = (int8_t)(random_int(0, edges) ? random_int(-128, 127) : random_u32() & 1 ? 127 : -128);
    for (int32_t i = 0; i < p.n * p.k; i++)
        w[i] = (int8_t)(random_int(0, edges) ? random_int(-128, 127) : random_u32() & 1 ? 127 : -128);
    fill_channels(p.n);
    const int32_t items = (p.rows + p.block_rows - 1) / p.block_rows * ((p.n + p.block_columns - 1) / p.block_columns);
    expect_same_packed(ref, k, &p, p.block_rows, p.k, p.n, 1, element * (size_t)(p.rows * p.out_stride), items);
}

/* Blocks of as many rows and columns as tiles have, and some more and less; every other time nothing but saturation clamps. */
static void check_tiles(const lb_kernel *ref, const lb_kernel *k, size_t element, int32_t rows, int32_t n) {
    lb_linear_s8_params p = {.rows = rows, .k = random_int(1, 70), .n = n, .out_stride = n + random_int(0, 3), .lo = -128, .hi = 127};
    p.block_rows = rows, p.block_columns = 16 * random_int(1, 6), p.x_zero = random_int(-128, 127), p.y_zero = random_int(-128, 127);
    fill(x, 1 + p.rows * p.k), fill_weights(p.n, p.k), fill_channels(p.n);
    for (int32_t i = 0; i < n && rows % 2; i++)
        multiplier[i] = random_int(0, 3) ? (float)random_int(1, 1 << 20) * 1e-9f : 1.0f - 0x1p-24f;
    expect_same_packed(ref, k, &p, p.block_rows, p.k, p.n, 1, element * (size_t)(p.rows * p.out_stride),
                       (p.n + p.block_columns - 1) / p.block_columns);
}

static void test_linear(const lb_kernel *ref, const lb_kernel *k, size_t element) {
    static const int32_t rows[] = {0, 1, 2, 3, 4, 5, 9, 33}, depths[] = {0, 1, 15, 16, 17, 64, 129, 513},
                         ns[] = {1, 7, 8, 15, 16, 17, 33, 64};
    for (int32_t i = 0; i < COUNT(rows); i++)
        for (int32_t j = 0; j < COUNT(depths); j++)
            for (int32_t l = 0; l < COUNT(ns); l++)
                check_linear(ref, k, element, rows[i], depths[j], ns[l], 0);
    static const int32_t wide[] = {31, 32, 48, 49, 63, 64, 65, 80, 96, 113};
    for (int32_t i = 0; i < COUNT(wide); i++)
        for (int32_t many = 1; many < 27; many++)
            check_tiles(ref, k, element, many, wide[i]);
    for (int round = 0; round < 12; round++)
        check_cut_quads(ref, k, element);
    for (int round = 0; round < 300; round++)
        check_few_quads(ref, k, element);
    for (int round = 0; round < 24; round++)
        check_borders(ref, k, element);
    static const int32_t longer[] = {1021, 1024, 1025, 2051}; /* than what is summed in one go */
    for (int32_t i = 0; i < 6 * COUNT(longer); i++)
        check_linear(ref, k, element, random_int(1, 13), longer[i % COUNT(longer)], random_int(1, 31), 0);
    /* so many columns that activations near their zero point are brought into a form of their own: all that fit, some, hardly any */
    static const int32_t deep[] = {128, 129, 144, 163, 200, 256, 259, 512, 709, 1024}, spreads[] = {2, 40, 60, 80, 110, 255};
    for (int32_t i = 0; i < 3 * COUNT(deep) * COUNT(spreads); i++) {
        const int32_t depth = deep[i % COUNT(deep)], n = depth > MAX_W / MANY ? MAX_W / depth : MANY;
        check_linear(ref, k, element, random_int(4, 11), depth, random_int(n - 20, n), spreads[i / COUNT(deep) % COUNT(spreads)]);
    }
    static const int32_t far[] = {49, 144, 259, 512, 1100};
    for (int32_t i = 0; i < 6 * COUNT(far); i++)
        check_far(ref, k, element, far[i % COUNT(far)]);
}

KERNEL_TEST(linear_s8_sizes) {
    (void)ref;
    static const char *family[] = {"linear_s8_sizes", "linear_s8_pack", "linear_s8",   "linear_s8_s16",
                                   "linear_s8_f32",   "conv_s8",        "conv_s8_s16", "conv_s8_f32"};
    for (int32_t i = 0; i < COUNT(family); i++)
        expect(kernel_of(family[i], k->isa) != NULL, "an instruction set has all products with packed weights or none");
}

/* The same weights give the same bytes, whatever was in memory before. */
KERNEL_TEST(linear_s8_pack) {
    (void)ref;
    static const int32_t ns[] = {0, 1, 8, 9, 40}, ks[] = {0, 1, 5, 64, 131};
    for (int32_t i = 0; i < COUNT(ns) * COUNT(ks) * 6; i++) {
        const lb_linear_s8_pack_params p = {i % 7, ks[i % COUNT(ks)], ns[i / COUNT(ks) % COUNT(ns)], i % 3};
        const lb_linear_s8_sizes_params sizes = {p.rows, p.k, p.n};
        int64_t bytes[3], used[2];
        void *size_args[1] = {bytes};
        kernel_of("linear_s8_sizes", k->isa)->call(&sizes, size_args, 0, 0);
        char *got[2];
        fill_weights(p.n, p.k);
        for (int32_t j = 0; j < 2; j++) {
            got[j] = aligned_bytes(bytes[0]);
            memset(got[j], j, (size_t)bytes[0]);
            void *work = aligned_bytes(bytes[2]), *args[4] = {w, got[j], &used[j], work};
            k->call(&p, args, 0, 0);
            free(work);
        }
        expect(used[0] == used[1], "packing takes as many bytes each time");
        expect_equal(k, got[0], got[1], (size_t)used[0], 0);
        free(got[0]), free(got[1]);
    }
}

/* Every byte against the contract. */
KERNEL_TEST(linear_s8_pack_dot4) {
    static const int32_t ns[] = {0, 1, 15, 16, 17, 40}, ks[] = {0, 1, 3, 4, 5, 64, 131};
    (void)ref;
    for (int32_t i = 0; i < COUNT(ns) * COUNT(ks); i++) {
        const lb_linear_s8_pack_dot4_params p = {ks[i % COUNT(ks)], ns[i / COUNT(ks)]};
        const int32_t columns = (p.n + 15) / 16 * 16, depth = (p.k + 3) / 4 * 4, bytes = 64 + columns * (4 + depth);
        int8_t *want = aligned_bytes(bytes), *got = aligned_bytes(bytes);
        int32_t *numbers = (int32_t *)(void *)want;
        fill_weights(p.n, p.k);
        memset(want, 0, (size_t)bytes);
        for (int32_t j = 0; j < p.n * p.k; j++) {
            const int32_t column = j / p.k, at = j % p.k;
            numbers[0] |= w[j] == -128, numbers[16 + column] += w[j];
            want[64 + 4 * columns + (column / 16 * depth / 4 + at / 4) * 64 + column % 16 * 4 + at % 4] = w[j];
        }
        void *args[2] = {w, got};
        k->call(&p, args, 0, 0);
        expect_equal(k, want, got, (size_t)bytes, 0);
        free(want), free(got);
    }
}

TESTED_WITH(linear_s8, test_linear, 1)
TESTED_WITH(linear_s8_s16, test_linear, 2)
TESTED_WITH(linear_s8_f32, test_linear, 4)

/* Rows with scales of their own, of every number that tiles have. */
KERNEL_TEST(linear_s8_rows_f32) {
    enum { MOST = 27 };
    static float real[MAX_CHANNELS], scales[MOST];
    for (int32_t round = 0; round < 300; round++) {
        lb_linear_s8_rows_f32_params p = {.rows = round % MOST, .k = random_int(0, 70), .n = random_int(1, 100)};
        p.block_rows = random_int(1, MOST), p.block_columns = 16 * random_int(1, 6), p.out_stride = p.n + random_int(0, 3);
        p.x_zero = random_int(-128, 127);
        fill(x, 1 + p.rows * p.k), fill_weights(p.n, p.k), fill_channels(p.n);
        for (int32_t i = 0; i < p.n; i++)
            real[i] = (float)random_int(-99, 99) * 0.3f, multiplier[i] = (float)random_int(1, 1 << 20) * 1e-7f;
        for (int32_t i = 0; i < MOST; i++)
            scales[i] = (float)random_int(1, 1 << 20) * 1e-7f;
        void *behind[3] = {real, multiplier, scales};
        expect_same_behind(ref, k, &p, p.block_rows, p.k, p.n, 1, behind, 3, sizeof(float) * (size_t)(p.rows * p.out_stride),
                           (p.rows + p.block_rows - 1) / p.block_rows * ((p.n + p.block_columns - 1) / p.block_columns));
    }
}

KERNEL_TEST(max_pool_s8) {
    for (int round = 0; round < 200; round++) {
        lb_max_pool_s8_params p = {.batch = random_int(0, 2), .in_h = random_int(1, 9), .in_w = random_int(1, 9)};
        p.channels = round % 4 ? channels[random_int(0, COUNT(channels) - 1)] : random_int(63, 130);
        p.out_h = random_int(1, 5), p.out_w = random_int(1, 5), p.kernel_h = random_int(1, 3), p.kernel_w = random_int(1, 3);
        p.stride_h = random_int(1, 3), p.stride_w = random_int(1, 3), p.pad_h = random_int(0, 3), p.pad_w = random_int(0, 3);
        p.dilation_h = random_int(1, 2), p.dilation_w = random_int(1, 2), p.out_stride = p.channels + random_int(0, 3);
        fill(x, MAX_X);
        void *args[2] = {x + 1};
        expect_same(ref, k, &p, args, 1, (size_t)(p.batch * p.out_h * p.out_w * p.out_stride), (size_t)round % 3, p.batch * p.out_h);
    }
}

/* Averages of bytes or words, as elements of so many bytes. */
static void test_averages(const lb_kernel *ref, const lb_kernel *k, int words, size_t element) {
    const int32_t half = words ? 32768 : 128;
    for (int round = 0; round < 200; round++) {
        lb_avg_pool_s8_params p = {.batch = random_int(0, 2), .in_h = random_int(1, 9), .in_w = random_int(1, 9)};
        p.channels = channels[random_int(0, COUNT(channels) - 1)];
        p.out_h = random_int(1, 5), p.out_w = random_int(1, 5), p.kernel_h = random_int(1, 9), p.kernel_w = random_int(1, 9);
        p.stride_h = random_int(1, 3), p.stride_w = random_int(1, 3), p.pad_h = random_int(0, 3), p.pad_w = random_int(0, 3);
        p.dilation_h = random_int(1, 2), p.dilation_w = random_int(1, 2), p.out_stride = p.channels + random_int(0, 3);
        if (round % 2)
            p.count_h0 = p.pad_h, p.count_h1 = random_int(0, 3), p.count_w0 = p.pad_w, p.count_w1 = random_int(0, 3);
        if (round % 10 == 0) /* more elements than 16 bits can sum */
            p.batch = 1, p.in_w = p.kernel_w = 600, p.in_h = p.out_w = 1, p.dilation_w = 1, p.pad_w = random_int(0, 3);
        p.multiplier = (float)random_int(1, 4000) * 1e-3f;
        p.x_zero = random_int(-half, half - 1), p.lo = random_int(-half, 0), p.hi = random_int(0, half - 1);
        p.y_zero = random_int(p.lo, p.hi);
        fill(x, (words ? 2 : 1) * MAX_X);
        void *scratch = aligned_bytes(4 * p.channels);
        void *args[3] = {x + (words ? 2 : 1), NULL, scratch};
        expect_same(ref, k, &p, args, 1, element * (size_t)(p.batch * p.out_h * p.out_w * p.out_stride), element * (size_t)(round % 3),
                    p.batch * p.out_h);
        free(scratch);
    }
}

TESTED_WITH(avg_pool_s8, test_averages, 0, 1)
TESTED_WITH(avg_pool_s8_f32, test_averages, 0, 4)
TESTED_WITH(avg_pool_s16, test_averages, 1, 2)
TESTED_WITH(avg_pool_s16_f32, test_averages, 1, 4)

/* A transpose, and with it strides of every kind: `ref` against the formula, the others against `ref`. */
static void test_copy(const lb_kernel *ref, const lb_kernel *k, size_t element) {
    for (int round = 0; round < 200; round++) {
        lb_copy_b8_params p = {.x_offset = random_int(0, 5)};
        int32_t order[6] = {0, 1, 2, 3, 4, 5}, next = 1;
        for (int i = 5; i > 0; i--) {
            const int j = random_int(0, i);
            const int32_t kept = order[i];
            order[i] = order[j], order[j] = kept;
        }
        for (int i = 0; i < 6; i++)
            p.shape[i] = random_int(1, i == 5 ? (element == 8 ? 15 : 33) : 3);
        if (round % 4 == 0) { /* planes of three channels, which become pixels */
            p.shape[4] = random_int(1, element == 1 ? 70 : 9), p.shape[5] = 3;
            for (int i = 0; i < 6; i++)
                order[i] = i == 4 ? 5 : i == 5 ? 4 : i;
        }
        for (int i = 5; i >= 0; i--)
            p.x_stride[order[i]] = next, next *= p.shape[order[i]];
        next = 1;
        for (int i = 5; i >= 0; i--)
            p.out_stride[i] = next, next *= p.shape[i];
        fill(x, MAX_X);
        void *args[2] = {x};
        expect_same(ref, k, &p, args, 1, element * (size_t)next, element * (size_t)(round % 3), p.shape[0]);
    }
}

TESTED_WITH(copy_b8, test_copy, 1)
TESTED_WITH(copy_b16, test_copy, 2)
TESTED_WITH(copy_b32, test_copy, 4)
TESTED_WITH(copy_b64, test_copy, 8)

/* What has a portable version alone so far; tests of sessions compare it with the interpreter. */
static void test_portable(const lb_kernel *ref, const lb_kernel *k) {
    expect(ref == k, "a kernel for another instruction set than ref needs a test of its own");
}
TESTED_BY(max_pool_s16, test_portable)

KERNEL_TEST(fill_b8) {
    const lb_fill_b8_params p = {200};
    void *args[1];
    expect_same(ref, k, &p, args, 0, 100, 3, 100);
}
