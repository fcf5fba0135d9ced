/* Layers with 4-bit weights, every instruction set against `ref`, and `ref` against plain sums: sizes around the tiles, segments that do
 * not divide k, odd k, extremes, and items in two parts. */
#include "base/numerics.h"
#include "test_support.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(list) ((int32_t)(sizeof list / sizeof *list))

#ifdef __linux__
enum { MAX_ROWS = 80 };
#else
enum { MAX_ROWS = 40 }; /* boards have room for no more */
#endif
enum { MAX_K = 1500, MAX_N = 64 };

static int32_t few(int32_t rows) {
    return rows < MAX_ROWS ? rows : MAX_ROWS;
}

static int8_t x[MAX_ROWS * MAX_K + 1], w[MAX_N * MAX_K];
static int32_t bias[MAX_N];
static float multiplier[MAX_N], real_bias[MAX_N], scales[MAX_N * MAX_K], x_scales[MAX_ROWS];

/* Whether it takes weights in the layout of `ref`. */
static int is_plain(const lb_kernel *k) {
    return strcmp(k->isa->name, "ref") == 0 || strcmp(k->isa->name, "armdsp") == 0 || strcmp(k->isa->name, "mve") == 0;
}

static int32_t round_up(int32_t v, int32_t to) {
    return (v + to - 1) / to * to;
}

static int32_t segments_of(int32_t k, int32_t segment) {
    return k > segment ? (k + segment - 1) / segment : 1;
}

/* Weights (n, k) in the layout of the kernel. */
static void *pack(const lb_kernel *kernel, int32_t n, int32_t k, int32_t segment) {
    if (is_plain(kernel)) {
        const int32_t row = k / 2 + k % 2;
        uint8_t *out = aligned_bytes((int64_t)n * row);
        for (int32_t c = 0; c < n; c++)
            for (int32_t i = 0; i < row; i++)
                out[c * row + i] = (uint8_t)((w[c * k + 2 * i] & 15) | (2 * i + 1 < k ? (w[c * k + 2 * i + 1] & 15) << 4 : 0));
        return out;
    }
    const int32_t stride = round_up(k < segment ? k : segment, 32), all = segments_of(k, segment) * stride;
    const int32_t depth = all - stride + round_up(k - (segments_of(k, segment) - 1) * segment, 32);
    uint8_t *out = aligned_bytes((int64_t)round_up(n, 16) * depth / 2);
    memset(out, 0x88, (size_t)(round_up(n, 16) * depth / 2));
    for (int32_t c = 0; c < n; c++)
        for (int32_t i = 0; i < k; i++) {
            const int32_t at = i / segment * stride + i % segment, group = at / 32, s = at % 16 / 4, t = at % 4;
            uint8_t *to = out + (c / 16 * (depth / 32) + group) * 256 + s * 64 + c % 16 * 4 + t;
            const int32_t nibble = w[c * k + i] + 8;
            *to = (uint8_t)(at % 32 < 16 ? (*to & 0xF0) | nibble : (*to & 15) | nibble << 4);
        }
    return out;
}

/* Scales (n, segments) in the layout of the kernel. */
static float *pack_scales(const lb_kernel *kernel, int32_t n, int32_t segments) {
    float *out = aligned_bytes((int64_t)round_up(n, 16) * segments * 4);
    memset(out, 0, (size_t)(round_up(n, 16) * segments) * 4);
    for (int32_t c = 0; c < n; c++)
        for (int32_t s = 0; s < segments; s++)
            out[is_plain(kernel) ? c * segments + s : (c / 16 * segments + s) * 16 + c % 16] = scales[c * segments + s];
    return out;
}

/* The largest sum of (x - zero) * w over a half of the elements first ... last - 1 of a channel, of any x in lo ... hi. */
static int32_t half_sum(int32_t channel, int32_t k, int32_t first, int32_t last, int32_t half, int32_t zero, int32_t lo) {
    int32_t up = 0, down = 0;
    for (int32_t i = first; i < last; i++)
        if ((i - first) % 4 / 2 == half) {
            const int32_t v = w[channel * k + i], a = v * (lo - zero), b = v * (127 - zero);
            up += a > b ? a : b, down += a < b ? a : b;
        }
    return up > -down ? up : -down;
}

/* The largest chunk that is proved. */
static int32_t chunk_of(int32_t n, int32_t k, int32_t segment, int32_t zero, int32_t lo) {
    int32_t chunk = 32;
    for (int32_t next = 64; next <= 1024; next *= 2) {
        for (int32_t c = 0; c < n; c++)
            for (int32_t s = 0; s < k; s += segment)
                for (int32_t i = s; i < s + segment && i < k; i += next) {
                    int32_t end = i + next < s + segment ? i + next : s + segment;
                    end = end < k ? end : k;
                    for (int32_t half = 0; half < 2; half++)
                        if (half_sum(c, k, i, end, half, zero, lo) > 32767)
                            return chunk;
                }
        chunk = next;
    }
    return chunk;
}

static int64_t scratch_bytes(const lb_kernel *kernel, int32_t rows, int32_t k, int32_t segment) {
    const int32_t e = round_up(k < segment ? k : segment, 32), s = segments_of(k, segment);
    const int32_t wide = strcmp(kernel->isa->name, "avx512vnni") == 0 ? 2 : 1, sums = wide == 2 ? 256 + 64 * s : 16 * s;
    return (int64_t)rows * (s * e + 96 + 64 * wide) + 18 * wide * (e > 1024 ? e : 1024) + sums;
}

static void fill(int32_t n, int32_t k, int32_t rows, int32_t least) {
    const int style = random_int(0, 4);
    for (int32_t i = 0; i < n * k; i++)
        w[i] = (int8_t)(style == 0 ? -8 : style == 1 ? (random_u32() & 1 ? 7 : -8) : style == 2 ? random_int(-1, 1) : random_int(-8, 7));
    for (int32_t i = 0; i < rows * k; i++)
        x[i + 1] = (int8_t)(style == 0 ? (random_int(0, 1) ? least : 127) : style == 1 ? least : random_int(least, 127));
    for (int32_t c = 0; c < n; c++) {
        bias[c] = random_int(-100000, 100000);
        multiplier[c] = (float)random_int(1, 1 << 20) * (random_int(0, 7) ? 1e-9f : 1e3f); /* some saturate */
        real_bias[c] = (float)random_int(-1000, 1000) * 0.37f;
    }
    for (int32_t i = 0; i < n * k; i++)
        scales[i] = (float)random_int(1, 1 << 20) * 1e-8f;
    for (int32_t i = 0; i < rows; i++)
        x_scales[i] = (float)random_int(1, 1 << 20) * 1e-6f;
}

typedef struct {
    int32_t rows, k, n, segment;
} size;

static size random_size(int round, int blocks) {
    static const int32_t rows[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 33, 64, 65},
                         ks[] = {0, 1, 2, 31, 32, 33, 63, 64, 65, 100, 128, 160, 257, 511}, ns[] = {1, 7, 15, 16, 17, 32, 33, 48},
                         segments[] = {1, 5, 16, 31, 32, 33, 64, 128};
    size s = {few(rows[random_int(0, COUNT(rows) - 1)]), ks[random_int(0, COUNT(ks) - 1)], ns[random_int(0, COUNT(ns) - 1)], 1};
    if (round % 16 == 0)
        s.k = random_int(1024, MAX_K), s.n = 17, s.rows = round % 32 ? random_int(1, 8) : MAX_ROWS;
    s.segment = blocks ? segments[random_int(0, COUNT(segments) - 1)] : s.k ? s.k : 1;
    if (blocks && round % 8 == 0)
        s.segment = s.k ? s.k : 1;
    return s;
}

/* Contracts that pack, for each layout. */
static const int32_t numbers[] = {LB_ISA_ref, LB_ISA_avx2, LB_ISA_avxvnni, LB_ISA_avx512vnni};
static const lb_isa named[] = {{"ref", 0}, {"avx2", 0}, {"avxvnni", 0}, {"avx512vnni", 0}};

KERNEL_TEST(w4_sizes) {
    (void)ref;
    for (int round = 0; round < 200; round++) {
        const size s = random_size(round, round % 2);
        const lb_w4_sizes_params p = {s.rows, s.k, s.n, s.segment, numbers[round % 4]};
        const lb_kernel layout = {.isa = &named[round % 4]};
        int64_t sizes[4];
        void *args[1] = {sizes};
        k->call(&p, args, 0, 0);
        const int32_t plain = round % 4 == 0, all = round_up(s.k < s.segment ? s.k : s.segment, 32) * segments_of(s.k, s.segment);
        const int64_t most = plain ? 0 : scratch_bytes(&layout, s.rows, s.k, s.segment);
        expect(sizes[2] <= most && sizes[2] + (int64_t)s.rows * all >= most, "scratch of linear_w4_s8");
        expect(plain ? sizes[3] == 0 : sizes[3] == sizes[2] + round_up(s.k, 64), "scratch of conv_w4_s8");
        expect(sizes[1] == 4 * (int64_t)segments_of(s.k, s.segment) * (plain ? s.n : round_up(s.n, 16)), "bytes of scales");
    }
}

static void test_w4_pack(const lb_kernel *ref, const lb_kernel *k, int of_scales) {
    (void)ref;
    for (int round = 0; round < 100; round++) {
        const size s = random_size(round, round % 2);
        const lb_kernel layout = {.isa = &named[round % 4]};
        const int32_t segments = segments_of(s.k, s.segment), plain = round % 4 == 0;
        const int32_t depth = (segments - 1) * round_up(s.segment, 32) + round_up(s.k - (segments - 1) * s.segment, 32);
        const size_t bytes = of_scales ? 4 * (size_t)segments * (size_t)(plain ? s.n : round_up(s.n, 16))
                             : plain   ? (size_t)s.n * (size_t)(s.k / 2 + s.k % 2)
                                       : (size_t)round_up(s.n, 16) * (size_t)depth / 2;
        fill(s.n, s.k, 0, -128);
        void *want = of_scales ? pack_scales(&layout, s.n, segments) : pack(&layout, s.n, s.k, s.segment),
             *got = aligned_bytes((int64_t)bytes);
        void *args[2] = {of_scales ? (void *)scales : (void *)w, got};
        k->call(&(lb_w4_pack_params){s.k, s.n, s.segment, numbers[round % 4]}, args, 0, 0);
        expect_equal(k, want, got, bytes, 0);
        free(want), free(got);
    }
}
TESTED_WITH(w4_pack, test_w4_pack, 0)
TESTED_WITH(w4_pack_scales, test_w4_pack, 1)

KERNEL_TEST(w4_chunk) {
    (void)ref;
    for (int round = 0; round < 100; round++) {
        const size s = random_size(round, round % 2);
        const int32_t zero = random_int(-128, 127);
        fill(s.n, s.k, 0, -128);
        int64_t chunk;
        void *args[2] = {w, &chunk};
        k->call(&(lb_w4_chunk_params){s.k, s.n, s.segment, -128, zero}, args, 0, 0);
        int fits = 1;
        for (int32_t c = 0; c < s.n; c++)
            for (int32_t i = 0; i < s.k; i += s.segment)
                for (int32_t at = i, end; at < i + s.segment && at < s.k; at = end) {
                    end = at + (int32_t)chunk < i + s.segment ? at + (int32_t)chunk : i + s.segment;
                    end = end < s.k ? end : s.k;
                    fits &= half_sum(c, s.k, at, end, 0, zero, -128) <= 32767 && half_sum(c, s.k, at, end, 1, zero, -128) <= 32767;
                }
        expect(chunk % 32 == 0 && (fits || chunk == 32), "sums of a chunk fit int16");
    }
}

/* Runs a kernel whose output and scratch are the last two arguments, in two parts; gives the output with the bytes around it. */
static unsigned char *run(const lb_kernel *k, const void *params, void **args, int output, size_t bytes, int64_t scratch, int32_t items) {
    unsigned char *out = malloc(bytes + 64);
    void *s = aligned_bytes(scratch);
    if (!out)
        abort();
    memset(out, 0xA5, bytes + 64);
    args[output] = out, args[output + 1] = s;
    const int32_t cut = items ? random_int(0, items) : 0;
    k->call(params, args, cut, items);
    k->call(params, args, 0, cut);
    free(s);
    return out;
}

static int32_t items_of(const size *s, int32_t block_rows, int32_t block_columns) {
    return (s->rows + block_rows - 1) / block_rows * ((s->n + block_columns - 1) / block_columns);
}

static void test_channels(const lb_kernel *ref, const lb_kernel *k, size_t element) {
    for (int round = 0; round < 300; round++) {
        const size s = random_size(round, 0);
        fill(s.n, s.k, s.rows, -128);
        lb_linear_w4_s8_params p = {.rows = s.rows,
                                    .k = s.k,
                                    .n = s.n,
                                    .block_rows = random_int(1, round % 2 ? 24 : MAX_ROWS),
                                    .out_stride = s.n + random_int(0, 3)};
        p.block_columns = 16 * random_int(1, 3), p.chunk = random_int(0, 3) ? chunk_of(s.n, s.k, s.segment, 0, -128) : 32;
        p.lo = random_int(-128, 0), p.hi = random_int(0, 127), p.y_zero = random_int(p.lo, p.hi);
        const size_t bytes = element * (size_t)(s.rows * p.out_stride);
        const lb_kernel *kernels[2] = {ref, k};
        unsigned char *out[2];
        for (int i = 0; i < 2; i++) {
            void *weights = pack(kernels[i], s.n, s.k, s.segment);
            void *args[6] = {x + 1, weights, bias, multiplier};
            out[i] = run(kernels[i], &p, args, 4, bytes, scratch_bytes(kernels[i], p.block_rows, s.k, s.segment),
                         items_of(&s, p.block_rows, p.block_columns));
            free(weights);
        }
        expect_equal(k, out[0], out[1], bytes + 64, 0);
        free(out[0]), free(out[1]);
    }
}

KERNEL_TEST(linear_w4_s8) {
    test_channels(ref, k, 1);
    /* `ref` against the plain sum: every activation -128, every weight -8, and one odd element after */
    fill(3, 5, 2, -128);
    memset(w, -8, 15), memset(x, -128, 11);
    w[4] = 7;
    const lb_linear_w4_s8_params p = {2, 5, 3, 8, 16, 3, 32, 0, -128, 127};
    const float m[3] = {0.01f, 0.02f, 0.03f};
    void *weights = pack(ref, 3, 5, 5), *args[6] = {x + 1, weights, bias, (void *)(uintptr_t)m};
    int8_t *out = (int8_t *)run(ref, &p, args, 4, 6, 64, 1);
    expect(out[0] == lb_requantize(bias[0] + 128 * 8 * 4 - 128 * 7, m[0], 0, -128, 127), "linear_w4_s8 sums nibbles with their signs");
    expect(out[5] == lb_requantize(bias[2] + 128 * 8 * 5, m[2], 0, -128, 127), "linear_w4_s8 reads odd rows from their own bytes");
    free(weights), free(out);
}

TESTED_WITH(linear_w4_s8_s16, test_channels, 2)
TESTED_WITH(linear_w4_s8_f32, test_channels, 4)

static void test_blocks(const lb_kernel *ref, const lb_kernel *k, size_t element, int by_rows) {
    for (int round = 0; round < 300; round++) {
        const size s = random_size(round, 1);
        const int32_t least = by_rows ? -127 : -128, segments = segments_of(s.k, s.segment);
        fill(s.n, s.k, s.rows, least);
        lb_linear_w4_blocks_s8_params p = {.rows = s.rows, .k = s.k, .n = s.n, .segment = s.segment};
        p.block_rows = random_int(1, round % 2 ? 24 : MAX_ROWS);
        p.block_columns = 16 * random_int(1, 3), p.out_stride = s.n + random_int(0, 3);
        p.x_zero = by_rows || round % 3 == 0 ? 0 : round % 3 == 1 ? random_int(-128, 127) : -128;
        p.chunk = random_int(0, 3) ? chunk_of(s.n, s.k, s.segment, p.x_zero, least) : 32;
        p.y_scale = (float[]){0.03f, 0.03f, 0.017f, 1e-25f, 1e25f, 1e-38f, 1e-8f}[random_int(0, 6)];
        p.lo = -128, p.hi = 127, p.y_zero = random_int(-128, 127);
        if (round % 5 == 0) /* beyond every scale, both ways */
            real_bias[0] = FLT_MAX, real_bias[s.n - 1] = -FLT_MAX;
        for (int32_t i = 0; i < s.n * segments && round % 7 == 0; i++) /* infinities of both signs, whose sum is NaN */
            scales[i] = FLT_MAX;
        const size_t bytes = element * (size_t)(s.rows * p.out_stride);
        const lb_kernel *kernels[2] = {ref, k};
        unsigned char *out[2];
        for (int i = 0; i < 2; i++) {
            void *weights = pack(kernels[i], s.n, s.k, s.segment);
            float *factors = pack_scales(kernels[i], s.n, segments);
            void *args[7] = {x + 1, x_scales, weights, factors, real_bias};
            void *unscaled[6] = {x + 1, weights, factors, real_bias};
            out[i] = run(kernels[i], &p, by_rows ? args : unscaled, by_rows ? 5 : 4, bytes,
                         scratch_bytes(kernels[i], p.block_rows, s.k, s.segment), items_of(&s, p.block_rows, p.block_columns));
            free(weights), free(factors);
        }
        expect_equal(k, out[0], out[1], bytes + 64, 0);
        free(out[0]), free(out[1]);
    }
}

TESTED_WITH(linear_w4_blocks_s8, test_blocks, 1, 0)
TESTED_WITH(linear_w4_blocks_s8_s16, test_blocks, 2, 0)
TESTED_WITH(linear_w4_blocks_s8_f32, test_blocks, 4, 0)
TESTED_WITH(linear_w4_rows_f32, test_blocks, 4, 1)

static void test_conv_w4(const lb_kernel *ref, const lb_kernel *k, size_t element) {
    for (int round = 0; round < 200; round++) {
        lb_conv_w4_s8_params p = {.batch = random_int(0, 2), .in_h = random_int(1, 7), .in_w = random_int(1, 7), .in_c = random_int(1, 20)};
        p.out_c = random_int(1, 34), p.kernel_h = random_int(1, 3), p.kernel_w = random_int(1, 3);
        if (round % 4 == 0)
            p.kernel_h = p.kernel_w = 1, p.in_c = 32;
        p.stride_h = random_int(1, 2), p.stride_w = random_int(1, 2), p.dilation_h = random_int(1, 2), p.dilation_w = random_int(1, 2);
        p.pad_h = random_int(0, 2), p.pad_w = random_int(0, 2);
        p.out_h = (p.in_h + p.pad_h + random_int(0, 2) - (p.kernel_h - 1) * p.dilation_h - 1) / p.stride_h + 1;
        p.out_w = (p.in_w + p.pad_w + random_int(0, 2) - (p.kernel_w - 1) * p.dilation_w - 1) / p.stride_w + 1;
        if (p.out_h < 1 || p.out_w < 1)
            continue;
        const int32_t depth = p.kernel_h * p.kernel_w * p.in_c, pixels = p.batch * p.out_h * p.out_w;
        fill(p.out_c, depth, MAX_ROWS, -128);
        p.block = random_int(1, round % 2 ? 24 : MAX_ROWS), p.out_stride = p.out_c + random_int(0, 1) * 5, p.x_zero = random_int(-128, 127);
        p.chunk = random_int(0, 3) ? chunk_of(p.out_c, depth, depth, 0, -128) : 32;
        p.lo = random_int(-128, 0), p.hi = random_int(0, 127), p.y_zero = random_int(p.lo, p.hi);
        const size_t bytes = element * (size_t)(pixels * p.out_stride);
        const lb_kernel *kernels[2] = {ref, k};
        unsigned char *out[2];
        for (int i = 0; i < 2; i++) {
            void *weights = pack(kernels[i], p.out_c, depth, depth);
            void *args[6] = {x + 1, weights, bias, multiplier};
            out[i] = run(kernels[i], &p, args, 4, bytes, scratch_bytes(kernels[i], p.block, depth, depth) + round_up(depth, 64),
                         (pixels + p.block - 1) / p.block);
            free(weights);
        }
        expect_equal(k, out[0], out[1], bytes + 64, 0);
        free(out[0]), free(out[1]);
    }
}

TESTED_WITH(conv_w4_s8, test_conv_w4, 1)
TESTED_WITH(conv_w4_s8_s16, test_conv_w4, 2)
TESTED_WITH(conv_w4_s8_f32, test_conv_w4, 4)
