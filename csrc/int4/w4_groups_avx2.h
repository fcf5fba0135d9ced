/* Weights of four bits on AVX2 with a scale for every 32 elements, which are a group: what costs here is the end of a sum, once a group.
 *
 * Many rows: three at a time, whose totals stay in registers from the first group of a panel to the last. A group's sum begins at 0 in 16
 * bits (255 * 8 * 16 fits), and its start is added in 32.
 *
 * One row or two: nibbles times x as in lb_w4_few, but sums begin at -8 * (sum of x - x_zero), modulo 2^16, and end as the true ones, which
 * fit: x_zero * (sum of nibbles) is taken off in 16 bits, too. */
#ifndef LB_W4_GROUPS_AVX2_H
#define LB_W4_GROUPS_AVX2_H

#include "int4/w4_epilogue_avx2.h"

enum { LB_W4_SOME = 3 }; /* rows whose sums and totals are in registers */

/* `groups` groups of a packed panel as bytes, and the start of each sum: -offset * (sum of its weights). */
static __attribute__((noinline)) void lb_w4_unpack_groups(const uint8_t *packed, ptrdiff_t groups, int32_t offset, int8_t *panel,
                                                          int32_t *starts) {
    const __m256i low = _mm256_set1_epi8(15), eight = _mm256_set1_epi8(8), ones = _mm256_set1_epi8(1);
    const __m256i most = _mm256_set1_epi16(8 * 16), by = _mm256_set1_epi16((int16_t)-offset);
    for (ptrdiff_t g = 0; g < groups; g++, packed += LB_W4_GROUP_BYTES, panel += 2 * LB_W4_GROUP_BYTES, starts += LB_W4_PANEL) {
        __m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
        for (int i = 0; i < 8; i++) {
            const __m256i v = _mm256_load_si256((const __m256i *)(const void *)(packed + 32 * i));
            const __m256i a = _mm256_and_si256(v, low), b = _mm256_and_si256(_mm256_srli_epi16(v, 4), low);
            sums[i % 2] = _mm256_add_epi8(sums[i % 2], _mm256_add_epi8(a, b)); /* 8 * 15 fits */
            _mm256_store_si256((__m256i *)(void *)(panel + 32 * i), _mm256_sub_epi8(a, eight));
            _mm256_store_si256((__m256i *)(void *)(panel + LB_W4_GROUP_BYTES + 32 * i), _mm256_sub_epi8(b, eight));
        }
        for (int h = 0; h < 2; h++) {
            const __m256i pairs = _mm256_sub_epi16(_mm256_maddubs_epi16(sums[h], ones), most);
            _mm256_store_si256((__m256i *)(void *)(starts + 8 * h), _mm256_madd_epi16(pairs, by));
        }
    }
}

/* Four k of three rows with 16 channels: the first of a group, and the others. */
#define LB_W4_FIRST_ROW(where, c0, c1)                                                                                                     \
    "vpbroadcastd " where ", %%ymm" c1 "\n\t"                                                                                              \
    "vpmaddubsw %%ymm12, %%ymm" c1 ", %%ymm" c0 "\n\t"                                                                                     \
    "vpmaddubsw %%ymm13, %%ymm" c1 ", %%ymm" c1 "\n\t"
#define LB_W4_NEXT_ROW(where, c0, c1)                                                                                                      \
    "vpbroadcastd " where ", %%ymm15\n\t"                                                                                                  \
    "vpmaddubsw %%ymm12, %%ymm15, %%ymm14\n\t"                                                                                             \
    "vpmaddubsw %%ymm13, %%ymm15, %%ymm15\n\t"                                                                                             \
    "vpaddw %%ymm14, %%ymm" c0 ", %%ymm" c0 "\n\t"                                                                                         \
    "vpaddw %%ymm15, %%ymm" c1 ", %%ymm" c1 "\n\t"
#define LB_W4_ROWS_1(row, s) row("4*" #s "(%[a])", "6", "7")
#define LB_W4_ROWS_2(row, s) LB_W4_ROWS_1(row, s) row("4*" #s "(%[a],%[l])", "8", "9")
#define LB_W4_ROWS_3(row, s) LB_W4_ROWS_2(row, s) row("4*" #s "(%[a],%[l],2)", "10", "11")
#define LB_W4_QUAD(rows, row, s) "vmovdqa 64*" #s "(%[w]), %%ymm12\n\tvmovdqa 64*" #s "+32(%[w]), %%ymm13\n\t" LB_W4_ROWS_##rows(row, s)

/* t += (c + start) * scale. */
#define LB_W4_SCALED(h, c, t)                                                                                                              \
    "vpmaddwd %[ones], %%ymm" c ", %%ymm" c "\n\t"                                                                                         \
    "vpaddd " #h "(%[start]), %%ymm" c ", %%ymm" c "\n\t"                                                                                  \
    "vcvtdq2ps %%ymm" c ", %%ymm" c "\n\t"                                                                                                 \
    "vmulps " #h "(%[scale]), %%ymm" c ", %%ymm" c "\n\t"                                                                                  \
    "vaddps %%ymm" c ", %[" t "], %[" t "]\n\t"
#define LB_W4_ENDS_1 LB_W4_SCALED(0, "6", "t0") LB_W4_SCALED(32, "7", "t1")
#define LB_W4_ENDS_2 LB_W4_ENDS_1 LB_W4_SCALED(0, "8", "t2") LB_W4_SCALED(32, "9", "t3")
#define LB_W4_ENDS_3 LB_W4_ENDS_2 LB_W4_SCALED(0, "10", "t4") LB_W4_SCALED(32, "11", "t5")

/* t += groups from `scale` to `end` of up to three rows. All of it in assembly: there is a use for each of the 16 registers. */
#define LB_W4_NEXT_QUAD(rows, s) LB_W4_QUAD(rows, LB_W4_NEXT_ROW, s)
#define LB_W4_GROUPS(rows)                                                                                                                 \
    __asm__ volatile(".p2align 5\n1:\n\t" LB_W4_QUAD(rows, LB_W4_FIRST_ROW, 0) LB_W4_NEXT_QUAD(rows, 1) LB_W4_NEXT_QUAD(rows, 2)           \
                         LB_W4_NEXT_QUAD(rows, 3) LB_W4_NEXT_QUAD(rows, 4) LB_W4_NEXT_QUAD(rows, 5) LB_W4_NEXT_QUAD(rows, 6)               \
                             LB_W4_NEXT_QUAD(rows, 7) LB_W4_ENDS_##rows                                                                    \
                     "add $32, %[a]\n\tadd $512, %[w]\n\tadd $64, %[start]\n\tadd $64, %[scale]\n\tcmp %[end], %[scale]\n\tjb 1b"          \
                     : [t0] "+x"(t[0][0]), [t1] "+x"(t[0][1]), [t2] "+x"(t[1][0]), [t3] "+x"(t[1][1]), [t4] "+x"(t[2][0]),                 \
                       [t5] "+x"(t[2][1]), [a] "+r"(a), [w] "+r"(panel), [start] "+r"(starts), [scale] "+r"(scales)                        \
                     : [l] "r"(stride), [end] "r"(end), [ones] "m"(lb_ones)                                                                \
                     : "memory", "cc", "ymm6", "ymm7", "ymm8", "ymm9", "ymm10", "ymm11", "ymm12", "ymm13", "ymm14", "ymm15")

/* What rows of a panel are made for: groups first ... last - 1, whose sums are added to those in acc if there are earlier ones. */
typedef struct {
    int32_t first, last;
    const float *scales, *bias;
    ptrdiff_t n, width;
    lb_w4_ahead next;
} lb_w4_run;

/* t (rows x 16) += a run of up to three rows. */
LB_INLINE void lb_w4_some_rows(const int rows, const lb_w4_scratch *s, const lb_w4_run *r, ptrdiff_t row, __m256 t[LB_W4_SOME][2]) {
    const ptrdiff_t stride = s->stride;
    const uint8_t *a = s->a + row * stride + (ptrdiff_t)r->first * LB_W4_GROUP;
    const int8_t *panel = s->panel;
    const int32_t *starts = (const int32_t *)(const void *)s->starts;
    const float *scales = r->scales + (ptrdiff_t)LB_W4_PANEL * r->first, *end = r->scales + (ptrdiff_t)LB_W4_PANEL * r->last;
    if (rows == 3) {
        LB_W4_GROUPS(3);
    } else if (rows == 2) {
        LB_W4_GROUPS(2);
    } else {
        LB_W4_GROUPS(1);
    }
}

/* 16 whole sums as words, without their zero point. */
LB_INLINE __m256i lb_w4_words(const float *total, const __m256 bias[2], const lb_divisor *by) {
    const __m256 t0 = _mm256_add_ps(_mm256_load_ps(total), bias[0]), t1 = _mm256_add_ps(_mm256_load_ps(total + 8), bias[1]);
    return _mm256_packs_epi32(_mm256_cvtps_epi32(lb_divided(lb_w4_numbers(t0), by)), _mm256_cvtps_epi32(lb_divided(lb_w4_numbers(t1), by)));
}

/* Rows of 16 whole sums as bytes, two at a time. Not from registers: what waits there for a quotient keeps the next rows from being begun.
 */
static inline void lb_w4_put_bytes(const lb_w4_product *p, const lb_w4_run *r, ptrdiff_t row, ptrdiff_t rows, const float *total) {
    const __m256 bias[2] = {_mm256_load_ps(r->bias), _mm256_load_ps(r->bias + 8)};
    const lb_divisor by = p->by;
    const __m256i zero = p->clamp.zero_point, order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i lo = _mm256_broadcastsi128_si256(p->clamp.lo), hi = _mm256_broadcastsi128_si256(p->clamp.hi);
    const ptrdiff_t stride = p->out_stride;
    int8_t *out = (int8_t *)p->out + row * stride + r->n;
    for (ptrdiff_t i = 0; i < rows; i += 2, total += 2 * LB_W4_PANEL, out += 2 * stride) {
        const ptrdiff_t next = i + 1 < rows; /* or the same row twice */
        const __m256i a = _mm256_adds_epi16(lb_w4_words(total, bias, &by), zero);
        const __m256i b = _mm256_adds_epi16(lb_w4_words(total + LB_W4_PANEL * next, bias, &by), zero);
        const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_min_epi8(_mm256_max_epi8(_mm256_packs_epi16(a, b), lo), hi), order);
        _mm_storeu_si128((__m128i *)(void *)out, _mm256_castsi256_si128(bytes));
        _mm_storeu_si128((__m128i *)(void *)(out + stride * next), _mm256_extracti128_si256(bytes, 1));
    }
}

/* Up to three rows, from `row` of s on: their sums in acc, or floats in `out`, whose rows are `step` apart. x_scales is NULL where rows
 * have none. */
LB_INLINE void lb_w4_some_groups(const int rows, const lb_w4_scratch *s, const lb_w4_run *r, ptrdiff_t row, const float *x_scales,
                                 float *out, ptrdiff_t step) {
    const float *total = (const float *)(const void *)s->acc + LB_W4_PANEL * row;
    __m256 t[LB_W4_SOME][2];
    for (int j = 0; j < rows && out != total; j++) /* lines far from each other, which would else be waited for */
        __builtin_prefetch(out + j * step, 1), __builtin_prefetch(out + j * step + LB_W4_PANEL - 1, 1);
    for (int h = 0; h < 2; h++)
        for (int j = 0; j < LB_W4_SOME; j++)
            t[j][h] = r->first && j < rows ? _mm256_load_ps(total + LB_W4_PANEL * j + 8 * h) : _mm256_setzero_ps();
    lb_w4_some_rows(rows, s, r, row, t);
    if (out == total)
        for (int j = 0; j < rows; j++, out += LB_W4_PANEL)
            _mm256_store_ps(out, t[j][0]), _mm256_store_ps(out + 8, t[j][1]);
    else
        for (int j = 0; j < rows; j++, out += step)
            for (int h = 0; h < 2; h++) {
                const __m256 v = x_scales ? _mm256_mul_ps(t[j][h], _mm256_broadcast_ss(x_scales + row + j)) : t[j][h];
                _mm256_storeu_ps(out + 8 * h, _mm256_add_ps(v, _mm256_load_ps(r->bias + 8 * h)));
            }
}

/* All rows of s, which are rows top, top + 1, ... of the output. */
static __attribute__((noinline)) void lb_w4_groups(const lb_w4_product *p, const lb_w4_scratch *s, const lb_w4_run *r, ptrdiff_t top,
                                                   ptrdiff_t rows) {
    const float *x_scales = p->x_scales ? p->x_scales + top : NULL;
    const int whole = r->last == p->cut.segments, panel = whole && r->width == LB_W4_PANEL, now = panel && p->to == LB_TO_F32;
    const ptrdiff_t step = now ? p->out_stride : LB_W4_PANEL;
    float *out = now ? (float *)p->out + top * step + r->n : (float *)(void *)s->acc;
    lb_w4_ahead next = r->next;
    ptrdiff_t i = 0;
    for (; i + 3 <= rows; i += 3, out += 3 * step) {
        lb_w4_fetch(&next);
        lb_w4_some_groups(3, s, r, i, x_scales, out, step);
    }
    if (i + 2 == rows)
        lb_w4_some_groups(2, s, r, i, x_scales, out, step);
    else if (i < rows)
        lb_w4_some_groups(1, s, r, i, x_scales, out, step);
    if (panel && p->to == LB_TO_S8 && lb_divides(p->y_scale))
        lb_w4_put_bytes(p, r, top, rows, (const float *)(const void *)s->acc);
    else
        for (i = 0; i < rows && whole && !now; i++)
            lb_w4_put_total(p, p->to, (const float *)(const void *)(s->acc + LB_W4_PANEL * i), r->bias, top + i, r->n, r->width);
}

/* The results of many rows and a panel. */
static inline void lb_w4_many_by_groups(const lb_w4_product *p, const lb_w4_scratch *s, ptrdiff_t top, ptrdiff_t rows,
                                        const uint8_t *packed, const float *scales, const float bias[LB_W4_PANEL], ptrdiff_t n,
                                        ptrdiff_t width) {
    const int32_t each = LB_W4_DEPTH / LB_W4_GROUP;
    for (int32_t first = 0; first < p->cut.segments; first += each) {
        const int32_t last = p->cut.segments - first < each ? p->cut.segments : first + each;
        const ptrdiff_t bytes = (ptrdiff_t)(last - first) * LB_W4_GROUP_BYTES;
        const lb_w4_ahead next = lb_w4_ahead_of(packed + (ptrdiff_t)last * LB_W4_GROUP_BYTES, bytes, rows / LB_W4_SOME);
        const lb_w4_run r = {first, last, scales, bias, n, width, next};
        lb_w4_unpack_groups(packed + (ptrdiff_t)first * LB_W4_GROUP_BYTES, last - first, 128 + p->x_zero, s->panel,
                            (int32_t *)(void *)s->starts);
        lb_w4_groups(p, s, &r, top, rows);
    }
}

static const _Alignas(32) uint8_t lb_low[32] = {15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,
                                                15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15};

/* Half of four quads of one row, 8 channels: their sums in c, those of their nibbles, if there is a zero point, in n. */
#define LB_W4_NIBBLES(at, c, n, summed)                                                                                                    \
    "vmovdqa " at                                                                                                                          \
    "(%[w]), %%ymm9\n\tvpand %%ymm9, %%ymm15, %%ymm8\n\tvpsrlw $4, %%ymm9, %%ymm9\n\tvpand %%ymm9, %%ymm15, %%ymm9\n\t" summed(            \
        n) "vpmaddubsw %%ymm6, %%ymm8, %%ymm8\n\tvpmaddubsw %%ymm7, %%ymm9, %%ymm9\n\t"                                                    \
           "vpaddw %%ymm8, %%ymm" c ", %%ymm" c "\n\tvpaddw %%ymm9, %%ymm" c ", %%ymm" c "\n\t"
#define LB_W4_SUMMED(n) "vpaddb %%ymm8, %%ymm" n ", %%ymm" n "\n\tvpaddb %%ymm9, %%ymm" n ", %%ymm" n "\n\t"
#define LB_W4_NOT_SUMMED(n)
#define LB_W4_QUADS(s, summed)                                                                                                             \
    "vpbroadcastd 4*" #s "(%[a]), %%ymm6\n\tvpbroadcastd 16+4*" #s "(%[a]), %%ymm7\n\t" LB_W4_NIBBLES("64*" #s, "2", "4", summed)          \
        LB_W4_NIBBLES("64*" #s "+32", "3", "5", summed)
#define LB_W4_ZERO(c, n) "vpmaddubsw %[z], %%ymm" n ", %%ymm" n "\n\tvpsubw %%ymm" n ", %%ymm" c ", %%ymm" c "\n\t"
#define LB_W4_NO_ZERO(c, n)
#define LB_W4_FULL(h, c, t, zero)                                                                                                          \
    zero "vpmaddwd %%ymm14, %%ymm" c ", %%ymm" c "\n\tvcvtdq2ps %%ymm" c ", %%ymm" c "\n\t"                                                \
         "vmulps " #h "(%[scale]), %%ymm" c ", %%ymm" c "\n\tvaddps %%ymm" c ", %[" t "], %[" t "]\n\t"

/* t += groups from `scale` to `end` of one row. Memory is asked for what comes 2 KB later: its own guess is too late for two streams. */
#define LB_W4_ROW_OF_GROUPS(summed, zero)                                                                                                  \
    __asm__ volatile(                                                                                                                      \
        "vmovdqa %[low], %%ymm15\n\tvmovdqa %[ones], %%ymm14\n\t"                                                                          \
        ".p2align 5\n1:\n\t"                                                                                                               \
        "vpbroadcastd (%[start]), %%ymm2\n\tvmovdqa %%ymm2, %%ymm3\n\t"                                                                    \
        "vpxor %%xmm4, %%xmm4, %%xmm4\n\tvpxor %%xmm5, %%xmm5, %%xmm5\n\t"                                                                 \
        "prefetcht0 2048(%[w])\n\tprefetcht0 2112(%[w])\n\tprefetcht0 2176(%[w])\n\tprefetcht0 2240(%[w])\n\tprefetcht0 "                  \
        "512(%[scale])\n\t" LB_W4_QUADS(0, summed) LB_W4_QUADS(1, summed) LB_W4_QUADS(2, summed) LB_W4_QUADS(3, summed)                    \
            LB_W4_FULL(0, "2", "t0", zero("2", "4")) LB_W4_FULL(                                                                           \
                32, "3", "t1",                                                                                                             \
                zero("3",                                                                                                                  \
                     "5")) "add $32, %[a]\n\tadd $256, %[w]\n\tadd $16, %[start]\n\tadd $64, %[scale]\n\tcmp %[end], %[scale]\n\tjb 1b"    \
        : [t0] "+x"(t[0]), [t1] "+x"(t[1]), [a] "+r"(a), [w] "+r"(packed), [start] "+r"(start), [scale] "+r"(scales)                       \
        : [z] "x"(z), [end] "r"(end), [ones] "m"(lb_ones), [low] "m"(lb_low)                                                               \
        : "memory", "cc", "ymm2", "ymm3", "ymm4", "ymm5", "ymm6", "ymm7", "ymm8", "ymm9", "ymm14", "ymm15")

/* s.acc (16) of one row = the scaled sum of all groups of a panel. */
static inline void lb_w4_one_by_groups(const lb_w4_product *p, const lb_w4_scratch *s, ptrdiff_t row, const uint8_t *packed,
                                       const float *scales) {
    const uint8_t *a = s->a + row * s->stride;
    const int32_t *start = s->sums + row;
    float *total = (float *)(void *)s->acc + LB_W4_PANEL * row;
    const float *end = scales + (ptrdiff_t)LB_W4_PANEL * p->cut.segments;
    const __m256i z = _mm256_set1_epi8((char)p->x_zero);
    __m256 t[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    if (p->x_zero)
        LB_W4_ROW_OF_GROUPS(LB_W4_SUMMED, LB_W4_ZERO);
    else
        LB_W4_ROW_OF_GROUPS(LB_W4_NOT_SUMMED, LB_W4_NO_ZERO);
    _mm256_store_ps(total, t[0]);
    _mm256_store_ps(total + 8, t[1]);
}

#endif
