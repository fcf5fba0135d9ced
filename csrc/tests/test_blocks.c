/* Language models: block formats, rows of tokens, caches in pages. All contracts promise bits: every kernel against `ref`. */
#include "test_support.h"
#include "attention/cache_place.h"
#include "blocks/block_panel.h"
#include "blocks/block_record.h"

#include <math.h>
#include <string.h>

enum { MOST_K = 512, MOST_N = 40, MOST_ROWS = 17 };

static const int32_t formats[] = {LB_F32,  LB_F16,  LB_BF16, LB_Q4_0, LB_Q4_1, LB_Q5_0, LB_Q5_1,
                                  LB_Q8_0, LB_Q2_K, LB_Q3_K, LB_Q4_K, LB_Q5_K, LB_Q6_K, LB_IQ4_NL};

static float random_float(void) {
    return (float)random_int(-(1 << 20), 1 << 20) * 0x1p-18f;
}

/* Where halves stand in a block, -1: there is no second one. */
static void halves_of(int32_t format, int at[2]) {
    at[0] = format == LB_Q2_K ? 80 : format == LB_Q3_K ? 108 : format == LB_Q6_K ? 208 : 0;
    at[1] = format == LB_Q2_K ? 82 : lb_block_format_of(format).offset ? 2 : -1;
}

/* Rows of a file. kind 0: any codes, halves about 1/64; 1: all bits of codes set and large halves; 2: halves that are subnormal or 0. */
static void random_file(int32_t format, uint8_t *w, int32_t n, int32_t k, int kind) {
    const lb_block_format f = lb_block_format_of(format);
    const int32_t bytes = k / f.block * f.bytes * n;
    for (int32_t i = 0; i < bytes; i++)
        w[i] = kind == 1 ? 0xFF : (uint8_t)random_u32();
    if (!f.bits) {
        for (int32_t i = 0; i < k * n; i++) {
            const float v = random_float();
            const uint16_t half = format == LB_F16 ? lb_f16_of_f32(v) : (uint16_t)(lb_f32_bits(v) >> 16);
            memcpy(w + (ptrdiff_t)f.bytes * i, format == LB_F32 ? (const void *)&v : &half, (size_t)f.bytes);
        }
        return;
    }
    int at[2];
    halves_of(format, at);
    for (int32_t b = 0; b < bytes / f.bytes; b++)
        for (int i = 0; i < 2; i++) {
            const uint16_t half =
                kind == 2 ? (uint16_t)random_int(0, 3) : lb_f16_of_f32(random_float() * (kind == 1 ? 100.0f : 0.0078125f));
            if (at[i] >= 0)
                memcpy(w + (ptrdiff_t)f.bytes * b + at[i], &half, 2);
        }
}

static int32_t size_of_k(int32_t format) {
    static const int32_t many[] = {32, 64, 96, 160, 512}, few[] = {256, 512}, any[] = {1, 2, 15, 16, 17, 33};
    const int block = lb_block_format_of(format).block;
    return block == 256 ? PICK(few) : block == 32 ? PICK(many) : PICK(any);
}

/* Activations: ordinary ones, ones of full scale, zeros, tiny ones, and now and then one that is no number. */
static void random_rows(float *x, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        const int kind = i / 32 % 5;
        x[i] = kind == 0   ? random_float()
               : kind == 1 ? (random_int(0, 1) ? 3.0f : -3.0f)
               : kind == 2 ? 0.0f
               : kind == 3 ? 1e-35f
                           : random_float() * 1e10f;
    }
    if (count && random_int(0, 7) == 0)
        x[random_int(0, count - 1)] = random_int(0, 1) ? NAN : INFINITY;
}

KERNEL_TEST(block_quantize) {
    static float x[MOST_ROWS * MOST_K];
    for (int i = 0; i < 60; i++) {
        const lb_block_quantize_params p = {32 * random_int(0, MOST_K / 32)};
        const int32_t rows = random_int(0, MOST_ROWS);
        random_rows(x, rows * p.size);
        void *args[2] = {x};
        expect_same(ref, k, &p, args, 1, (size_t)(rows * p.size / LB_BLOCK) * LB_BLOCK_RECORD, (size_t)i % 5, rows);
    }
}

static uint8_t file[MOST_N * MOST_K * 4];
static _Alignas(64) uint8_t packed[(MOST_N + 16) * MOST_K * 4 + 4096];

/* Packed rows hold every code and scale of the file: what comes out of a product of unit rows is their sum of a kind; here bytes. */
KERNEL_TEST(block_pack) {
    for (int i = 0; i < 80; i++) {
        const int32_t format = PICK(formats), n = random_int(1, 33), size = size_of_k(format);
        const lb_block_pack_params p = {format, size, n};
        random_file(format, file, n, size, 0);
        const int32_t panels = (n + 15) / 16;
        void *args[2] = {file, NULL};
        expect_same(ref, k, &p, args, 1, (size_t)(panels * lb_panel_bytes(format, size)), 0, panels);
        ref->call(&p, (void *[]){file, packed}, 0, panels);
        const lb_block_format f = lb_block_format_of(format);
        int same = 1;
        for (int32_t j = 0; f.bits && j < n; j++)
            for (int32_t b = 0; b < size / 32; b++) {
                const uint8_t *panel = packed + lb_panel_bytes(format, size) * (j / 16);
                lb_block_parts parts;
                lb_parts_of(format, file + (ptrdiff_t)f.bytes * (size / f.block) * j, b, &parts);
                const lb_block_scales s = lb_scales_at(format, panel, b, j % 16);
                for (int l = 0; l < 32; l++)
                    same &=
                        lb_code_at(f.bits, panel + lb_panel_codes(format, size) + lb_code_bytes(format) * b, j % 16, l) == parts.code[l];
                for (int l = 0; f.factors && l < 2; l++)
                    same &= s.factor[l] == parts.factor[l] && s.offset_factor[l] == parts.offset_factor[l];
                if (format == LB_Q4_K || format == LB_Q5_K)
                    same &= s.d == lb_f32_of_f16(parts.d) * parts.scale && -s.m == lb_f32_of_f16(parts.m) * parts.offset_scale;
                else
                    same &= s.d == lb_f32_of_f16(parts.d);
            }
        expect(same, "a panel holds the codes and scales of the file's rows");
    }
}

static const lb_kernel *ref_of(const char *contract) {
    for (int i = 0; i < lb_kernel_count; i++)
        if (!strcmp(lb_kernels[i].contract->name, contract) && !strcmp(lb_kernels[i].isa->name, "ref"))
            return &lb_kernels[i];
    return NULL;
}

static void test_product(const lb_kernel *ref, const lb_kernel *k, int floats) {
    static float x[MOST_ROWS * MOST_K], bias[MOST_N], residual[MOST_ROWS * (MOST_N + 3)];
    static uint8_t records[MOST_ROWS * MOST_K / 32 * LB_BLOCK_RECORD];
    static _Alignas(64) uint8_t scratch[40 * MOST_K + 4096];
    static const int32_t rows_of[] = {1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17}, columns[] = {1, 15, 16, 17, 31, 32, 33, 40};
    for (int i = 0; i < 400; i++) {
        const int32_t format = formats[floats ? i % 3 : 3 + i % 11], rows = PICK(rows_of), n = PICK(columns), size = size_of_k(format);
        const lb_block_linear_s8_params p = {format, rows, size, n, n + random_int(0, 3), random_int(0, 1), random_int(0, 1)};
        const lb_block_pack_params packing = {format, size, n};
        const lb_block_quantize_params rounding = {size};
        const int32_t panels = (n + 15) / 16;
        random_file(format, file, n, size, i % 3);
        random_rows(x, rows * size);
        ref_of("block_pack")->call(&packing, (void *[]){file, packed}, 0, panels);
        if (!floats)
            ref_of("block_quantize")->call(&rounding, (void *[]){x, records}, 0, rows);
        for (int32_t j = 0; j < n; j++)
            bias[j] = random_float();
        for (int32_t j = 0; j < rows * p.out_stride; j++)
            residual[j] = random_float();
        void *args[6] = {floats ? (void *)x : records, packed, bias, residual, NULL, scratch};
        expect_same(ref, k, &p, args, 4, sizeof(float) * (size_t)((rows - 1) * p.out_stride + n), sizeof(float) * ((size_t)i % 5), panels);
    }
}

KERNEL_TEST(block_linear_s8) {
    test_product(ref, k, 0);
}

KERNEL_TEST(block_linear_f32) {
    test_product(ref, k, 1);
}

KERNEL_TEST(block_gather) {
    static int32_t ids[MOST_ROWS];
    for (int i = 0; i < 60; i++) {
        const int32_t format = PICK(formats), n = random_int(1, MOST_N), size = size_of_k(format), count = random_int(0, MOST_ROWS);
        const lb_block_gather_params p = {format, size, n};
        random_file(format, file, n, size, i % 3);
        for (int32_t j = 0; j < count; j++)
            ids[j] = random_int(-1, n);
        void *args[3] = {file, ids};
        expect_same(ref, k, &p, args, 2, sizeof(float) * (size_t)(count * size), sizeof(float) * ((size_t)i % 5), count);
    }
}

static void test_norm(const lb_kernel *ref, const lb_kernel *k, int rounded) {
    static float x[MOST_ROWS * MOST_K], weight[MOST_K];
    for (int i = 0; i < 80; i++) {
        const int32_t n = rounded ? 32 * random_int(1, 8) : random_int(1, 70), rows = random_int(0, MOST_ROWS);
        const lb_rms_norm_rows_params p = {n, i % 2 ? 1e-5f : 1.0f};
        for (int32_t j = 0; j < rows * n; j++)
            x[j] = random_float();
        for (int32_t j = 0; j < n; j++)
            weight[j] = random_float();
        void *args[3] = {x, weight};
        expect_same(ref, k, &p, args, 2, (size_t)(rounded ? rows * n / LB_BLOCK * LB_BLOCK_RECORD : rows * n * 4),
                    rounded ? 0 : 4 * ((size_t)i % 5), rows);
    }
}

KERNEL_TEST(rms_norm_rows) {
    test_norm(ref, k, 0);
}

KERNEL_TEST(rms_norm_blocks) {
    test_norm(ref, k, 1);
}

static void test_gates(const lb_kernel *ref, const lb_kernel *k, int rounded) {
    static float g[1024], up[1024];
    for (int i = 0; i < 80; i++) {
        const int32_t size = rounded ? 32 * random_int(0, 20) : random_int(0, 700);
        const lb_gate_rows_params p = {size, i % 2};
        for (int32_t j = 0; j < size; j++)
            g[j] = j % 7 == 0 ? random_float() * 100.0f : random_float(), up[j] = random_float();
        void *args[3] = {g, up};
        expect_same(ref, k, &p, args, 2, (size_t)(rounded ? size / LB_BLOCK * LB_BLOCK_RECORD : size * 4),
                    rounded ? 0 : 4 * ((size_t)i % 5), (size + LB_BLOCK - 1) / LB_BLOCK);
    }
}

KERNEL_TEST(gate_rows) {
    test_gates(ref, k, 0);
}

KERNEL_TEST(gate_blocks) {
    test_gates(ref, k, 1);
}

KERNEL_TEST(rotary) {
    static float x[MOST_ROWS * 4 * 64], cosines[MOST_ROWS * 32], sines[MOST_ROWS * 32];
    for (int i = 0; i < 80; i++) {
        const int32_t depth = random_int(1, 64), heads = random_int(1, 4), rows = random_int(0, MOST_ROWS);
        const lb_rotary_params p = {heads, depth, 2 * random_int(0, depth / 2), i % 2};
        for (int32_t j = 0; j < rows * heads * depth; j++)
            x[j] = random_float();
        for (int32_t j = 0; j < MOST_ROWS * 32; j++)
            cosines[j] = random_float(), sines[j] = random_float();
        void *args[4] = {x, cosines, sines};
        expect_same(ref, k, &p, args, 3, sizeof(float) * (size_t)(rows * heads * depth), 4 * ((size_t)i % 5), rows);
    }
}

enum { PAGES = 7, SLOTS = 4, SEQUENCES = 3, CACHE = PAGES * 3 * 80 * LB_PAGE };

static int32_t table[SEQUENCES * SLOTS], positions[MOST_ROWS], sequences[MOST_ROWS];

/* Pages of three sequences, some of which do not exist; rows that stand anywhere, some outside. */
static void random_places(int32_t rows, int distinct) {
    for (int i = 0; i < SEQUENCES * SLOTS; i++)
        table[i] = i < PAGES ? (3 * i + 1) % PAGES : random_int(-1, PAGES);
    for (int32_t i = 0; i < rows; i++) {
        sequences[i] = distinct ? (i + 1) / 8 - 1 : random_int(0, 5) ? random_int(0, 2) / 2 : random_int(-1, SEQUENCES);
        positions[i] = distinct ? 31 + i : random_int(0, 5) ? random_int(0, SLOTS * LB_PAGE - 1) : random_int(-3, SLOTS * LB_PAGE + 40);
    }
    for (int32_t i = 1; !distinct && i < rows; i++) /* runs, as chunks have them */
        if (random_int(0, 3))
            sequences[i] = sequences[i - 1], positions[i] = positions[i - 1] + 1;
}

KERNEL_TEST(cache_store_f16) {
    static float x[MOST_ROWS * 3 * 80];
    static uint16_t want[CACHE], got[CACHE];
    static const int32_t depths[] = {1, 15, 16, 17, 32, 64, 80};
    for (int i = 0; i < 60; i++) {
        const int32_t depth = PICK(depths), heads = random_int(1, 3), rows = random_int(0, MOST_ROWS);
        const lb_cache_store_f16_params p = {heads, depth, PAGES, SEQUENCES, SLOTS, i % 2};
        random_places(rows, 1);
        for (int32_t j = 0; j < rows * heads * depth; j++)
            x[j] = j % 11 == 0 ? random_float() * 1e6f : j % 13 == 0 ? random_float() * 1e-8f : random_float();
        for (int32_t j = 0; j < CACHE; j++)
            want[j] = got[j] = (uint16_t)j;
        ref->call(&p, (void *[]){x, positions, sequences, table, want}, 0, rows);
        const int32_t cut = rows ? random_int(0, rows) : 0;
        k->call(&p, (void *[]){x, positions, sequences, table, got}, cut, rows);
        k->call(&p, (void *[]){x, positions, sequences, table, got}, 0, cut);
        expect_equal(k, want, got, sizeof want, 0);
    }
}

KERNEL_TEST(cache_attention_f16) {
    static float q[MOST_ROWS * 12 * 80];
    static uint16_t keys[CACHE], values[CACHE];
    static _Alignas(64) float scratch[4 * 12 * (LB_PAGE * SLOTS + 80 + 64)];
    static const int32_t depths[] = {1, 15, 16, 17, 32, 48, 64, 80};
    for (int i = 0; i < 160; i++) {
        const int32_t depth = PICK(depths), kv_heads = random_int(1, 3), group = random_int(1, 4), rows = random_int(0, 12);
        const int32_t block = random_int(1, 4), heads = kv_heads * group, items = kv_heads * ((rows + block - 1) / block);
        const lb_cache_attention_f16_params p = {
            rows, heads, kv_heads, depth, PAGES, SEQUENCES, SLOTS, i % 3 ? 0 : random_int(1, 70), block, 0.2f, i % 4 ? 0.0f : 5.0f};
        random_places(rows, 0);
        for (int32_t j = 0; j < rows * heads * depth; j++)
            q[j] = random_float() * (i % 5 ? 1.0f : 20.0f);
        for (int32_t j = 0; j < CACHE; j++) {
            keys[j] = lb_f16_of_f32(random_float());
            values[j] = i % 6 == 5 && j % 97 == 0 ? 0x7c00 : lb_f16_of_f32(random_float()); /* infinity, where nobody should look, too */
        }
        void *args[8] = {q, keys, values, positions, sequences, table, NULL, scratch};
        expect_same(ref, k, &p, args, 6, sizeof(float) * (size_t)(rows * heads * depth), 4 * ((size_t)i % 5), items);
    }
}
