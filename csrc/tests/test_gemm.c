/* Matrix products against plain loops in int64: tiles and one more or less, extremes, the longest k that int32 holds, strides,
 * addresses off alignment, and buffers of exactly the size that was asked for. */
#include "test_support.h"

#include <stdlib.h>
#include <string.h>

static const int32_t ms[] = {0, 1, 2, 3, 4, 5, 7, 9, 33, 197};
static const int32_t ns[] = {0, 1, 7, 8, 9, 15, 16, 17, 33};
static const int32_t ks[] = {0, 1, 3, 4, 15, 16, 17, 31, 33, 100, 255, 257, 511, 513, 1025};
#define COUNT(list) (sizeof list / sizeof *list)

enum { GUARD = 64 };

/* `bytes` at an address of 64 n + shift, with a guard before and after. */
typedef struct {
    unsigned char *block, *at;
    size_t bytes;
} buffer;

static buffer make(int64_t bytes, size_t shift) {
    const size_t size = (size_t)bytes + GUARD * 3 + shift;
    unsigned char *block = malloc(size);
    if (!block)
        abort();
    memset(block, 0xA5, size);
    return (buffer){block, block + (GUARD * 2 - (uintptr_t)block % GUARD) + shift, (size_t)bytes};
}

/* Without a guard: the sanitizer sees every step too far. */
static buffer make_exact(int64_t bytes) {
    const size_t size = ((size_t)bytes + 63) / 64 * 64;
    unsigned char *block = aligned_alloc(64, size ? size : 64);
    if (!block)
        abort();
    memset(block, 0xA5, size);
    return (buffer){block, block, (size_t)bytes};
}

static const lb_kernel *kernel_named(const char *contract, const lb_isa *isa) {
    for (int i = 0; i < lb_kernel_count; i++)
        if (lb_kernels[i].isa == isa && strcmp(lb_kernels[i].contract->name, contract) == 0)
            return &lb_kernels[i];
    return NULL;
}

/* ---- gemm_s8 ---------------------------------------------------------------------------------------------------------------- */

typedef enum { RANDOM, LOWEST, HIGHEST, OPPOSITE } fill;

typedef struct {
    int32_t m, k, n, segment, segments, a_unsigned, b_unsigned;
    int64_t a_stride, out_stride;
    int8_t *a, *b; /* b is k x n, dense */
    int32_t *za, *zb;
    float *sa, *sb;
} problem;

static int8_t value(int32_t is_unsigned, fill how) {
    const int32_t lo = is_unsigned ? 0 : -128, hi = is_unsigned ? 255 : 127;
    return (int8_t)(how == RANDOM ? random_int(lo, hi) : how == LOWEST ? lo : hi);
}

static problem make_problem(int32_t m, int32_t k, int32_t n, int32_t segment, int32_t variant) {
    problem q = {.m = m, .k = k, .n = n, .segment = segment, .a_unsigned = variant & 1, .b_unsigned = variant >> 1 & 1};
    const fill how = (fill)(variant >> 2 & 3);
    const int zero_points = variant >> 4 & 1;
    q.segments = k > segment ? (k + segment - 1) / segment : 1;
    q.a_stride = k + variant % 5, q.out_stride = n + variant % 3;
    q.a = malloc((size_t)(m * q.a_stride + 1)), q.b = malloc((size_t)k * (size_t)n + 1);
    const size_t rows = (size_t)(q.segments * m) + 1, columns = (size_t)(q.segments * n) + 1;
    q.za = malloc(rows * 4), q.sa = malloc(rows * 4), q.zb = malloc(columns * 4), q.sb = malloc(columns * 4);
    if (!q.a || !q.b || !q.za || !q.zb || !q.sa || !q.sb)
        abort();
    for (int64_t i = 0; i < m * q.a_stride; i++)
        q.a[i] = value(q.a_unsigned, how == OPPOSITE ? LOWEST : how);
    for (int64_t i = 0; i < (int64_t)k * n; i++)
        q.b[i] = value(q.b_unsigned, how == OPPOSITE ? HIGHEST : how);
    for (size_t i = 0; i < rows; i++) {
        const int8_t z = value(q.a_unsigned, how == RANDOM ? RANDOM : how == LOWEST ? HIGHEST : LOWEST);
        q.za[i] = !zero_points ? 0 : q.a_unsigned ? (uint8_t)z : z;
        q.sa[i] = (float)random_int(1, 1 << 20) * 1e-7f;
    }
    for (size_t i = 0; i < columns; i++) {
        const int8_t z = value(q.b_unsigned, how == RANDOM ? RANDOM : how == HIGHEST ? LOWEST : HIGHEST);
        q.zb[i] = !zero_points ? 0 : q.b_unsigned ? (uint8_t)z : z;
        q.sb[i] = (float)random_int(1, 1 << 20) * 1e-7f;
    }
    return q;
}

static void free_problem(problem *q) {
    free(q->a), free(q->b), free(q->za), free(q->zb), free(q->sa), free(q->sb);
}

static int64_t dot(const problem *q, int32_t i, int32_t j, int32_t s) {
    const int64_t from = (int64_t)s * q->segment, to = from + q->segment < q->k ? from + q->segment : q->k;
    const int64_t za = q->za[s * q->m + i], zb = q->zb[s * q->n + j];
    int64_t sum = 0;
    for (int64_t k = from; k < to; k++) {
        const int8_t a = q->a[i * q->a_stride + k], b = q->b[k * q->n + j];
        sum += ((q->a_unsigned ? (uint8_t)a : a) - za) * ((q->b_unsigned ? (uint8_t)b : b) - zb);
    }
    return sum;
}

static void sizes_of(const problem *q, const lb_isa *isa, int64_t bytes[2]) {
    const lb_gemm_s8_sizes_params p = {q->m, q->k, q->n, q->segment};
    void *args[] = {bytes};
    kernel_named("gemm_s8_sizes", isa)->call(&p, args, 0, 0);
}

static buffer packed_of(const problem *q, const lb_isa *isa, const int8_t *b, int64_t row_stride, int64_t column_stride) {
    int64_t bytes[2];
    sizes_of(q, isa, bytes);
    buffer packed = make_exact(bytes[0]);
    const lb_gemm_s8_pack_params p = {row_stride, column_stride, q->k, q->n, q->segment, q->b_unsigned};
    void *args[] = {(void *)b, q->zb, packed.at};
    kernel_named("gemm_s8_pack", isa)->call(&p, args, 0, 0);
    return packed;
}

/* The product by `k` against plain loops, both with guards around the answer. */
static void check_product(const lb_kernel *k, problem *q, float start, size_t shift) {
    const int is_float = strcmp(k->contract->name, "gemm_s8_f32") == 0;
    const int64_t bytes = (q->m ? (q->m - 1) * q->out_stride + q->n : 0) * 4;
    buffer want = make(bytes, shift), got = make(bytes, shift), packed = packed_of(q, k->isa, q->b, q->n, 1);
    for (int32_t i = 0; i < q->m; i++)
        for (int32_t j = 0; j < q->n; j++) {
            void *at = want.at + 4 * (i * q->out_stride + j);
            float y = start;
            for (int32_t s = 0; s < q->segments && is_float; s++)
                y += (float)(int32_t)dot(q, i, j, s) * (q->sa[s * q->m + i] * q->sb[s * q->n + j]);
            const int32_t acc = is_float ? 0 : (int32_t)dot(q, i, j, 0);
            memcpy(at, is_float ? (const void *)&y : (const void *)&acc, 4);
        }
    int64_t sizes[2];
    sizes_of(q, k->isa, sizes);
    buffer scratch = make_exact(sizes[1]);
    if (is_float) {
        const lb_gemm_s8_f32_params p = {q->a_stride, q->out_stride, q->m, q->k, q->n, q->segment, q->a_unsigned, start};
        void *args[] = {q->a, q->za, q->sa, packed.at, q->sb, got.at, scratch.at};
        k->call(&p, args, 0, 0);
    } else {
        const lb_gemm_s8_s32_params p = {q->a_stride, q->out_stride, q->m, q->k, q->n, q->a_unsigned};
        void *args[] = {q->a, q->za, packed.at, got.at, scratch.at};
        k->call(&p, args, 0, 0);
    }
    expect_equal(k, want.at - GUARD, got.at - GUARD, want.bytes + 2 * GUARD, GUARD);
    free(want.block), free(got.block), free(packed.block), free(scratch.block);
}

KERNEL_TEST(gemm_s8_sizes) {
    (void)ref;
    static const char *family[] = {"gemm_s8_sizes", "gemm_s8_pack", "gemm_s8_s32", "gemm_s8_f32"};
    for (size_t i = 0; i < COUNT(family); i++)
        expect(kernel_named(family[i], k->isa) != NULL, "an instruction set has all of gemm_s8 or none");
}

/* However b lies in memory, its packed form is the same. */
KERNEL_TEST(gemm_s8_pack) {
    (void)ref;
    int32_t variant = 0;
    for (size_t i = 0; i < COUNT(ks); i++)
        for (size_t j = 0; j < COUNT(ns); j++) {
            const int32_t segment = (int32_t[]){1000000, 16, 33, 7}[variant % 4];
            problem q = make_problem(0, ks[i], ns[j], segment, variant++);
            buffer want = packed_of(&q, k->isa, q.b, q.n, 1);
            const int64_t layouts[][2] = {{1, q.k}, {-1, q.k + 1}, {2 * q.n, 2}, {q.n + 3, 1}};
            for (size_t l = 0; l < COUNT(layouts); l++) {
                const int64_t rs = layouts[l][0], cs = layouts[l][1], first = rs < 0 ? (q.k ? q.k - 1 : 0) : 0;
                int8_t *b = malloc((size_t)((q.k + 1) * (rs < 0 ? 1 : rs) + (q.n + 1) * cs + 1));
                if (!b)
                    abort();
                for (int32_t r = 0; r < q.k; r++)
                    for (int32_t c = 0; c < q.n; c++)
                        b[first + r * rs + c * cs] = q.b[(int64_t)r * q.n + c];
                buffer got = packed_of(&q, k->isa, b + first, rs, cs);
                expect_equal(k, want.at, got.at, want.bytes, 0);
                free(b), free(got.block);
            }
            free(want.block), free_problem(&q);
        }
}

KERNEL_TEST(gemm_s8_s32) {
    (void)ref;
    int32_t variant = 0;
    for (size_t h = 0; h < COUNT(ms); h++)
        for (size_t i = 0; i < COUNT(ks); i++)
            for (size_t j = 0; j < COUNT(ns); j++) {
                problem q = make_problem(ms[h], ks[i], ns[j], ks[i] ? ks[i] : 1, variant);
                check_product(k, &q, 0, 4 * (size_t)(variant++ % 3));
                free_problem(&q);
            }
    /* k * max|a - za| * max|b - zb| just below 2^31, every product at its extreme: {k, variant of make_problem}. */
    static const int32_t longest[][2] = {{131071, 4}, {131071, 12}, {33025, 11}, {65793, 14}, {33025, 16 + 4}, {33025, 16 + 8}};
    for (size_t i = 0; i < COUNT(longest); i++) {
        problem q = make_problem(5, longest[i][0], 17, longest[i][0], longest[i][1]);
        check_product(k, &q, 0, 0);
        free_problem(&q);
    }
}

KERNEL_TEST(gemm_s8_f32) {
    (void)ref;
    static const int32_t segments[] = {1000000, 32, 5, 16, 513};
    int32_t variant = 0;
    for (size_t h = 0; h < COUNT(ms); h++)
        for (size_t i = 0; i < COUNT(ks); i++)
            for (size_t j = 0; j < COUNT(ns); j++) {
                problem q = make_problem(ms[h], ks[i], ns[j], segments[variant % 5], variant);
                check_product(k, &q, variant & 1 ? -0.0f : 0.0f, 4 * (size_t)(variant % 3));
                variant++;
                free_problem(&q);
            }
    for (int signs = 0; signs < 2; signs++) { /* -1 * (scales whose product is no float but 0) */
        problem q = make_problem(1, 1, 1, 1, 0);
        q.a[0] = 1, q.b[0] = -1, q.sa[0] = q.sb[0] = 1e-30f;
        check_product(k, &q, signs ? -0.0f : 0.0f, 0);
        free_problem(&q);
    }
}

/* ---- gemm_s16_s64, gemm_b1_s32 ------------------------------------------------------------------------------------------------ */

static void check_s16(const lb_kernel *k, int32_t m, int32_t depth, int32_t n, int32_t variant) {
    const int64_t a_stride = depth + variant % 3, b_stride = n + variant % 2, out_stride = n + variant % 5;
    const size_t a_count = (size_t)(m * a_stride) + 1, b_count = (size_t)(depth * b_stride) + 1;
    int16_t *a = malloc(a_count * 2), *b = malloc(b_count * 2);
    if (!a || !b)
        abort();
    const fill how = (fill)(variant % 4);
    for (size_t i = 0; i < a_count; i++)
        a[i] = (int16_t)(how == RANDOM ? random_int(-32768, 32767) : how == HIGHEST ? 32767 : -32768);
    for (size_t i = 0; i < b_count; i++)
        b[i] = (int16_t)(how == RANDOM ? random_int(-32768, 32767) : how == LOWEST ? -32768 : 32767);
    const int64_t bytes = (m ? (m - 1) * out_stride + n : 0) * 8;
    buffer want = make(bytes, 8), got = make(bytes, 8), scratch = make_exact(32 * ((int64_t)depth + 1));
    for (int32_t i = 0; i < m; i++)
        for (int32_t j = 0; j < n; j++) {
            int64_t sum = 0;
            for (int32_t t = 0; t < depth; t++)
                sum += (int64_t)a[i * a_stride + t] * b[t * b_stride + j];
            memcpy(want.at + 8 * (i * out_stride + j), &sum, 8);
        }
    const lb_gemm_s16_s64_params p = {a_stride, b_stride, out_stride, m, depth, n};
    void *args[] = {a, b, got.at, scratch.at};
    k->call(&p, args, 0, 0);
    expect_equal(k, want.at - GUARD, got.at - GUARD, want.bytes + 2 * GUARD, GUARD);
    free(a), free(b), free(want.block), free(got.block), free(scratch.block);
}

KERNEL_TEST(gemm_s16_s64) {
    (void)ref;
    int32_t variant = 0;
    for (size_t h = 0; h < COUNT(ms); h++)
        for (size_t i = 0; i < COUNT(ks); i++)
            for (size_t j = 0; j < COUNT(ns); j++)
                check_s16(k, ms[h], ks[i], ns[j], variant++);
    for (variant = 0; variant < 4; variant++)
        check_s16(k, 5, 70001, 9, variant);
}

KERNEL_TEST(gemm_b1_s32) {
    (void)ref;
    static const int32_t longer[] = {0, 1, 63, 64, 65, 255, 256, 257, 1000, 31 * 256, 31 * 256 + 1, 63 * 256 + 65};
    int32_t variant = 0;
    for (size_t h = 0; h < COUNT(ms); h++)
        for (size_t i = 0; i < COUNT(longer); i++)
            for (size_t j = 0; j < COUNT(ns); j++) {
                const int32_t m = ms[h] < 100 ? ms[h] : 6, depth = longer[i], n = ns[j], words = (depth + 63) / 64;
                const int64_t out_stride = n + variant % 3;
                const size_t a_count = (size_t)(m * words) + 1, b_count = (size_t)(n * words) + 1;
                uint64_t *a = calloc(a_count, 8), *b = calloc(b_count, 8);
                const int64_t bytes = (m ? (m - 1) * out_stride + n : 0) * 4;
                buffer want = make(bytes, 4), got = make(bytes, 4);
                if (!a || !b)
                    abort();
                for (int32_t t = 0; t < depth; t++) { /* variants: random, all differ, all alike */
                    for (int32_t r = 0; r < m; r++)
                        a[r * words + t / 64] |= (uint64_t)(variant % 3 ? 1 : random_int(0, 1)) << t % 64;
                    for (int32_t r = 0; r < n; r++)
                        b[r * words + t / 64] |= (uint64_t)(variant % 3 ? variant % 3 - 1 : random_int(0, 1)) << t % 64;
                }
                for (int32_t r = 0; r < m; r++)
                    for (int32_t c = 0; c < n; c++) {
                        int32_t sum = 0;
                        for (int32_t t = 0; t < depth; t++)
                            sum += (a[r * words + t / 64] >> t % 64 & 1) == (b[c * words + t / 64] >> t % 64 & 1) ? 1 : -1;
                        memcpy(want.at + 4 * (r * out_stride + c), &sum, 4);
                    }
                const lb_gemm_b1_s32_params p = {out_stride, m, depth, n, words};
                void *args[] = {a, b, got.at};
                k->call(&p, args, 0, 0);
                expect_equal(k, want.at - GUARD, got.at - GUARD, want.bytes + 2 * GUARD, GUARD);
                free(a), free(b), free(want.block), free(got.block);
                variant++;
            }
}
