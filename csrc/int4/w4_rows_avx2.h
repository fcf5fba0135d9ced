/* Rows of activations that meet weights of four bits, on x86: how k is cut, scratch memory, packing. Many rows are packed as x + 128
 * (unsigned), few rows as x with their sums.
 *
 * Parameters, which the including header defines as constants:
 *   LB_W4_FEW        rows that are few
 *   LB_W4_WIDE       panels that are unpacked at once
 *   LB_W4_BY_GROUPS  1: segments of one group have kernels of their own (w4_groups_avx2.h)
 *   LB_W4_STARTS     1: few rows are given the value at which sums begin; 0: the sum of x */
#ifndef LB_W4_ROWS_AVX2_H
#define LB_W4_ROWS_AVX2_H

#include "base/divide_avx2.h"
#include "base/ones_avx2.h"
#include "base/requantize_avx2.h"
#include "base/unroll.h"
#include "int4/w4.h"

#include <immintrin.h>
#include <string.h>

enum {
    LB_W4_GROUP = 32,
    LB_W4_PANEL = 16,
    LB_W4_TILE = 6,
    LB_W4_DEPTH = 1024,      /* k of an unpacked panel: half of a first-level cache */
    LB_W4_GROUP_BYTES = 256, /* of a packed panel */
};

typedef int32_t __attribute__((may_alias)) lb_w4_dword;
typedef struct {
    uint8_t all[1 << 24];
} __attribute__((may_alias)) lb_w4_bytes; /* what assembly may read behind a pointer */

static inline ptrdiff_t lb_w4_round_up(ptrdiff_t v, ptrdiff_t to) {
    return (v + to - 1) / to * to;
}

/* How k is cut and padded. */
typedef struct {
    int32_t k, segment, segments;
    ptrdiff_t stride, depth; /* of a padded segment, of all */
} lb_w4_cut;

static inline lb_w4_cut lb_w4_cut_of(int32_t k, int32_t segment) {
    const int32_t segments = lb_segments(k, segment);
    const ptrdiff_t stride = lb_w4_round_up(k < segment ? k : segment, LB_W4_GROUP);
    const ptrdiff_t last = lb_w4_round_up(lb_segment_length(k, segment, segments - 1), LB_W4_GROUP);
    return (lb_w4_cut){k, segment, segments, stride, (segments - 1) * stride + last};
}

static inline ptrdiff_t lb_w4_segment_depth(const lb_w4_cut *cut, int32_t s) {
    return s == cut->segments - 1 ? cut->depth - s * cut->stride : cut->stride;
}

/* The parts of scratch. A row takes an odd number of cache lines, so that neighbours do not share few sets of the cache. */
typedef struct {
    ptrdiff_t stride; /* from row to row of a */
    uint8_t *a;       /* x + 128 for many rows, x for few */
    int32_t *acc;     /* rows x 16 LB_W4_WIDE, of int32 or float */
    int8_t *panel;    /* LB_W4_WIDE x (depth / 4, 16, 4) */
    int16_t *starts;  /* a pair for each of 16 channels and each chunk */
    int32_t *sums;    /* segments x LB_W4_FEW: of x, or where sums begin */
} lb_w4_scratch;

/* k of an unpacked panel, at most. */
static inline ptrdiff_t lb_w4_deep(const lb_w4_cut *cut) {
    return cut->stride > LB_W4_DEPTH ? cut->stride : LB_W4_DEPTH;
}

static inline lb_w4_scratch lb_w4_scratch_at(void *base, int32_t rows, const lb_w4_cut *cut) {
    const ptrdiff_t stride = 64 * ((cut->depth + 63) / 64 | 1), deep = LB_W4_WIDE * lb_w4_deep(cut);
    char *acc = (char *)base + rows * stride, *panel = acc + 64 * LB_W4_WIDE * (ptrdiff_t)rows;
    return (lb_w4_scratch){
        stride, (uint8_t *)base, (int32_t *)acc, (int8_t *)panel, (int16_t *)(panel + 16 * deep), (int32_t *)(panel + 18 * deep)};
}

/* The next 32 of k - i bytes, zeros behind them. */
static inline __m256i lb_w4_load(const int8_t *x, int32_t i, int32_t k) {
    int8_t tail[LB_W4_GROUP] = {0};
    if (k - i >= LB_W4_GROUP)
        return _mm256_loadu_si256((const __m256i *)(const void *)(x + i));
    memcpy(tail, x + i, (size_t)(k - i));
    return _mm256_loadu_si256((const __m256i *)(const void *)tail);
}

/* Bytes x + 128, padded to a multiple of 32 with what weights of zero meet. */
static inline void lb_w4_pack_many(const int8_t *x, int32_t k, uint8_t *out) {
    const __m256i flip = _mm256_set1_epi8((char)0x80);
    for (int32_t i = 0; i < k; i += LB_W4_GROUP)
        _mm256_store_si256((__m256i *)(void *)(out + i), _mm256_xor_si256(lb_w4_load(x, i, k), flip));
}

/* Bytes x, padded with zeros to a multiple of 32; gives their sum. */
static inline int32_t lb_w4_pack_few(const int8_t *x, int32_t k, uint8_t *out) {
    const __m256i ones = _mm256_set1_epi8(1), words = _mm256_set1_epi16(1);
    __m256i sum = _mm256_setzero_si256();
    for (int32_t i = 0; i < k; i += LB_W4_GROUP) {
        const __m256i v = lb_w4_load(x, i, k);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(ones, v), words));
        _mm256_store_si256((__m256i *)(void *)(out + i), v);
    }
    const __m128i half = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    const __m128i quarter = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(quarter, _mm_shuffle_epi32(quarter, 0xB1)));
}

/* Packed weights that come next: tiles prefetch them part by part, so that unpacking does not wait for memory. Behind the last panel
 * there is nothing to prefetch, which does no harm; numbers, since no pointer may lead there. */
typedef struct {
    uintptr_t at, end, each;
} lb_w4_ahead;

static inline lb_w4_ahead lb_w4_ahead_of(const uint8_t *next, ptrdiff_t bytes, ptrdiff_t tiles) {
    const uintptr_t at = (uintptr_t)next;
    return (lb_w4_ahead){at, at + (uintptr_t)bytes, (uintptr_t)lb_w4_round_up(bytes / (tiles > 0 ? tiles : 1) + 1, 64)};
}

static inline void lb_w4_fetch(lb_w4_ahead *next) {
    const uintptr_t end = next->end - next->at < next->each ? next->end : next->at + next->each;
    for (; next->at < end; next->at += 64)
        _mm_prefetch((const char *)next->at, _MM_HINT_T1);
}

/* What rows and panels are multiplied for. */
typedef struct {
    lb_w4_cut cut;
    ptrdiff_t chunk;
    int32_t x_zero;
    const uint8_t *packed;
    int32_t n;
    const int32_t *bias; /* one segment: of the accumulator, or NULL where the sum is scaled */
    const float *scales; /* one segment: multipliers (n); else (panels, segments, 16) */
    const float *x_scales;
    const float *real_bias;
    float y_scale;
    lb_divisor by; /* y_scale, where lb_divides says so */
    void *out;
    ptrdiff_t out_stride;
    lb_result to;
    lb_clamp16 clamp;
    int32_t y_zero, lo, hi;
} lb_w4_product;

/* The fields that come from parameters which all kernels have. */
#define LB_W4_OUTPUT(p)                                                                                                                    \
    .chunk = (p)->chunk, .out_stride = (p)->out_stride, .clamp = lb_clamp16_of((p)->y_zero, (p)->lo, (p)->hi), .y_zero = (p)->y_zero,      \
    .lo = (p)->lo, .hi = (p)->hi

/* The product of a layer with a scale for each channel: one segment. */
#define LB_W4_CHANNELS(p, depth, columns, w, sums, multiplier, to)                                                                         \
    {.cut = lb_w4_cut_of(depth, (depth) ? (depth) : 1),                                                                                    \
     .packed = (w),                                                                                                                        \
     .n = (columns),                                                                                                                       \
     .bias = (sums),                                                                                                                       \
     .scales = (multiplier),                                                                                                               \
     .out = (to),                                                                                                                          \
     LB_W4_OUTPUT(p)}

/* Whether segments are groups, and more than one: kernels of their own take them (w4_groups_avx2.h). */
static inline int lb_w4_by_groups(const lb_w4_cut *cut) {
    return LB_W4_BY_GROUPS && cut->stride == LB_W4_GROUP && cut->segments > 1;
}

/* Where the two sums of 16 bits of few rows begin that take a packed group: -8 * (sum of x - x_zero), modulo 2^16. */
static inline int32_t lb_w4_few_start(const uint8_t *group, int32_t x_zero) {
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), _mm256_load_si256((const __m256i *)(const void *)group));
    const __m128i half = _mm_add_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    const __m128i quarter = _mm_add_epi16(half, _mm_shuffle_epi32(half, 0x4E));
    const __m128i sums = _mm_add_epi16(quarter, _mm_shuffle_epi32(quarter, 0xB1));
    return _mm_cvtsi128_si32(_mm_slli_epi16(_mm_sub_epi16(_mm_set1_epi16((int16_t)(16 * x_zero)), sums), 3));
}

/* What few rows are told of a packed segment of x, padded to `depth`: its sum, or where sums begin. */
static inline int32_t lb_w4_told(const lb_w4_product *p, const uint8_t *segment, int32_t sum, ptrdiff_t depth) {
    if (LB_W4_STARTS)
        return (int32_t)(8u * ((uint32_t)p->x_zero * (uint32_t)depth - (uint32_t)sum));
    return lb_w4_by_groups(&p->cut) ? lb_w4_few_start(segment, p->x_zero) : sum;
}

/* One row of x, segment by segment, and what few rows are told of them. */
static inline void lb_w4_pack_row(const int8_t *x, const lb_w4_product *p, const lb_w4_scratch *s, ptrdiff_t row, int few) {
    const lb_w4_cut *cut = &p->cut;
    uint8_t *out = s->a + row * s->stride;
    if (!few && (cut->segments == 1 || cut->segment % LB_W4_GROUP == 0)) {
        lb_w4_pack_many(x, cut->k, out);
        return;
    }
    for (int32_t g = 0; g < cut->segments; g++, out += cut->stride) {
        const int8_t *from = x + (ptrdiff_t)g * cut->segment;
        const int32_t length = lb_segment_length(cut->k, cut->segment, g);
        if (!few) {
            lb_w4_pack_many(from, length, out);
            continue;
        }
        const int32_t sum = lb_w4_pack_few(from, length, out);
        s->sums[g * LB_W4_FEW + row] = lb_w4_told(p, out, sum, lb_w4_segment_depth(cut, g));
    }
}

#endif
