/* Weights of four bits on AVX2: vpmaddubsw of activations + 128 (unsigned) with weights (signed), summed in 16 bits.
 *
 * Many rows: 16 channels of weights are unpacked to bytes once, so deep that they stay in the first-level cache, and tiles of 6 rows pass
 * over them. Sums begin at -(128 + x_zero) * (sum of their weights), modulo 2^16, so that a sum ends as the true one, which the
 * caller's `chunk` makes fit; what overflows on the way comes back.
 *
 * Few rows: nibbles go from memory to registers as they are, w + 8 (unsigned), against the activations (signed): 128 * 15 * 16 < 2^15, so
 * 32 elements fit, and 8 * (sum of x) is taken off in the end. */
#ifndef LB_W4_AVX2_H
#define LB_W4_AVX2_H

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

#ifdef LB_DOT4_AVX512VNNI_H
enum { LB_W4_FEW = 16, LB_W4_FEW_CHANNELS = 64, LB_W4_WIDE = 2 }; /* of one segment more rows are few */
#else
enum { LB_W4_FEW = 4, LB_W4_WIDE = 1 }; /* rows that are few, panels that are unpacked at once */
enum { LB_W4_STREAM = 2048 };           /* bytes of weights that are asked for before they are read */
#endif

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

/* Whether segments are groups, and more than one: kernels of their own take them (w4_groups_avx2.h). */
static inline int lb_w4_by_groups(const lb_w4_cut *cut) {
#ifdef LB_VNNI_H
    (void)cut;
    return 0;
#else
    return cut->stride == LB_W4_GROUP && cut->segments > 1;
#endif
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
#ifdef LB_DOT4_AVX512VNNI_H
    (void)segment;
    return (int32_t)(8u * ((uint32_t)p->x_zero * (uint32_t)depth - (uint32_t)sum));
#else
    (void)depth;
    return lb_w4_by_groups(&p->cut) ? lb_w4_few_start(segment, p->x_zero) : sum;
#endif
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

#if defined LB_DOT4_AVX512VNNI_H
/* w4_avx512vnni.h has its own. */
#elif defined LB_VNNI_H
#include "int4/w4_vnni.h"
#else

/* A run of `groups` groups of a packed panel as bytes, and where its sums begin, for activations u with u - offset = x - x_zero. */
static __attribute__((noinline)) void lb_w4_unpack(const uint8_t *packed, ptrdiff_t groups, int32_t offset, int8_t *panel, int16_t *start) {
    const __m256i low = _mm256_set1_epi8(15), eight = _mm256_set1_epi8(8), ones = _mm256_set1_epi8(1);
    const __m256i m = _mm256_set1_epi16((int16_t)-offset);
    __m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (ptrdiff_t g = 0; g < groups; g++, packed += LB_W4_GROUP_BYTES, panel += 2 * LB_W4_GROUP_BYTES)
        for (int i = 0; i < 8; i++) {
            const __m256i v = _mm256_load_si256((const __m256i *)(const void *)(packed + 32 * i));
            const __m256i a = _mm256_sub_epi8(_mm256_and_si256(v, low), eight);
            const __m256i b = _mm256_sub_epi8(_mm256_and_si256(_mm256_srli_epi16(v, 4), low), eight);
            const __m256i pairs = _mm256_maddubs_epi16(ones, _mm256_add_epi8(a, b));
            sums[i % 2] = _mm256_add_epi16(sums[i % 2], pairs);
            _mm256_store_si256((__m256i *)(void *)(panel + 32 * i), a);
            _mm256_store_si256((__m256i *)(void *)(panel + LB_W4_GROUP_BYTES + 32 * i), b);
        }
    for (int i = 0; i < 2; i++)
        _mm256_store_si256((__m256i *)(void *)(start + 16 * i), _mm256_mullo_epi16(sums[i], m));
}

/* Four k, `offset` bytes from the pointers, of one or three rows with 16 channels. In assembly, because compilers move the loads of other
 * rows here and run out of registers, and keep an address for each row. */
#define LB_W4_ROW(where, c0, c1)                                                                                                           \
    "vpbroadcastd %c[at]" where ", %[t]\n\t"                                                                                               \
    "vpmaddubsw %[w0], %[t], %[u]\n\t"                                                                                                     \
    "vpmaddubsw %[w1], %[t], %[t]\n\t"                                                                                                     \
    "vpaddw %[u], %[" c0 "], %[" c0 "]\n\t"                                                                                                \
    "vpaddw %[t], %[" c1 "], %[" c1 "]\n\t"
#define LB_W4_ONE(c, a, offset, v0, v1)                                                                                                    \
    __asm__(LB_W4_ROW("(%[p])", "c0", "c1")                                                                                                \
            : [c0] "+x"((c)[0][0]), [c1] "+x"((c)[0][1]), [t] "=&x"(t), [u] "=&x"(u)                                                       \
            : [p] "r"(a), [at] "i"(offset), [w0] "x"(v0), [w1] "x"(v1), "m"(*(const lb_w4_bytes *)(const void *)(a)))
#define LB_W4_THREE(c, a, stride, offset, v0, v1)                                                                                          \
    __asm__(LB_W4_ROW("(%[p])", "c0", "c1") LB_W4_ROW("(%[p],%[l])", "c2", "c3") LB_W4_ROW("(%[p],%[l],2)", "c4", "c5")                    \
            : [c0] "+x"((c)[0][0]), [c1] "+x"((c)[0][1]), [c2] "+x"((c)[1][0]), [c3] "+x"((c)[1][1]), [c4] "+x"((c)[2][0]),                \
              [c5] "+x"((c)[2][1]), [t] "=&x"(t), [u] "=&x"(u)                                                                             \
            : [p] "r"(a), [l] "r"(stride), [at] "i"(offset), [w0] "x"(v0), [w1] "x"(v1), "m"(*(const lb_w4_bytes *)(const void *)(a)))
#define LB_W4_STEP(s)                                                                                                                      \
    {                                                                                                                                      \
        const __m256i w0 = _mm256_load_si256((const __m256i *)(const void *)(panel + 64 * s));                                             \
        const __m256i w1 = _mm256_load_si256((const __m256i *)(const void *)(panel + 64 * s + 32));                                        \
        __m256i t, u;                                                                                                                      \
        if (rows >= 3)                                                                                                                     \
            LB_W4_THREE(c, a, stride, 4 * s, w0, w1);                                                                                      \
        if (rows == 6)                                                                                                                     \
            LB_W4_THREE(c + 3, b, stride, 4 * s, w0, w1);                                                                                  \
        for (int i = rows / 3 * 3; i < rows; i++)                                                                                          \
            LB_W4_ONE(c + i, a + i * stride, 4 * s, w0, w1);                                                                               \
    }

/* Sums of `k` elements (a chunk) of `rows` rows with a panel, in 16 bits. */
LB_INLINE void lb_w4_chunk(const int rows, const uint8_t *a, ptrdiff_t stride, const int8_t *panel, const int16_t *start, ptrdiff_t k,
                           __m256i c[LB_W4_TILE][2]) {
    for (int i = 0; i < rows; i++) {
        c[i][0] = _mm256_load_si256((const __m256i *)(const void *)start);
        c[i][1] = _mm256_load_si256((const __m256i *)(const void *)(start + 16));
    }
    const uint8_t *b = a + 3 * stride;
    for (const uint8_t *end = a + k; a < end; a += LB_W4_GROUP, b += LB_W4_GROUP, panel += 2 * LB_W4_GROUP_BYTES) {
        LB_W4_STEP(0) LB_W4_STEP(1) LB_W4_STEP(2) LB_W4_STEP(3) LB_W4_STEP(4) LB_W4_STEP(5) LB_W4_STEP(6) LB_W4_STEP(7)
    }
}

/* 16 words of 1, made where it stands: a constant would be kept in a register that the tile has not. */
LB_INLINE __m256i lb_w4_ones(void) {
    __m256i v;
    __asm__ volatile("vpcmpeqw %0, %0, %0\n\tvpsrlw $15, %0, %0" : "=x"(v));
    return v;
}

/* acc (rows x 16) = or += k elements of one segment. */
LB_INLINE void lb_w4_tile(const int rows, const uint8_t *a, ptrdiff_t stride, const int8_t *panel, const int16_t *starts, ptrdiff_t k,
                          ptrdiff_t chunk, int more, int32_t *acc) {
    for (ptrdiff_t at = 0; at < k; at += chunk, starts += 32) {
        __m256i c[LB_W4_TILE][2];
        lb_w4_chunk(rows, a + at, stride, panel + 16 * at, starts, k - at < chunk ? k - at : chunk, c);
        const __m256i ones = lb_w4_ones();
        for (int i = 0; i < rows; i++)
            for (int h = 0; h < 2; h++) {
                __m256i *to = (__m256i *)(void *)(acc + 16 * i + 8 * h);
                const __m256i v = _mm256_madd_epi16(c[i][h], ones);
                _mm256_store_si256(to, more || at ? _mm256_add_epi32(v, _mm256_load_si256(to)) : v);
            }
    }
}

typedef void lb_w4_tile_fn(const uint8_t *a, ptrdiff_t stride, const int8_t *panel, const int16_t *starts, ptrdiff_t k, ptrdiff_t chunk,
                           int more, int32_t *acc);

/* total (rows x 16) += `segments` segments, each scaled. */
LB_INLINE void lb_w4_tile_blocks(const int rows, lb_w4_tile_fn *tile, const lb_w4_product *p, const lb_w4_scratch *s, ptrdiff_t row,
                                 int32_t first, int32_t last, const float *scales, float *total) {
    const uint8_t *a = s->a + row * s->stride + first * p->cut.stride;
    const int8_t *panel = s->panel;
    const int16_t *starts = s->starts;
    _Alignas(32) int32_t sums[LB_W4_TILE * 16];
    for (int32_t g = first; g < last; g++) {
        const ptrdiff_t k = lb_w4_segment_depth(&p->cut, g);
        const ptrdiff_t early = k <= p->chunk ? 0 : (k - 1) / p->chunk * p->chunk; /* what the last chunk leaves */
        __m256i c[LB_W4_TILE][2];
        if (early)
            tile(a, s->stride, panel, starts, early, p->chunk, 0, sums);
        if (early)
            starts += 32 * (early / p->chunk);
        lb_w4_chunk(rows, a + early, s->stride, panel + 16 * early, starts, k - early, c);
        starts += 32;
        const __m256i ones = lb_w4_ones();
        for (int i = 0; i < rows; i++)
            for (int h = 0; h < 2; h++) {
                const __m256 scale = _mm256_loadu_ps(scales + 16 * g + 8 * h);
                __m256i acc = _mm256_madd_epi16(c[i][h], ones);
                if (early)
                    acc = _mm256_add_epi32(acc, _mm256_load_si256((const __m256i *)(const void *)(sums + 16 * i + 8 * h)));
                float *to = total + 16 * i + 8 * h;
                _mm256_store_ps(to, _mm256_add_ps(_mm256_load_ps(to), _mm256_mul_ps(_mm256_cvtepi32_ps(acc), scale)));
            }
        a += p->cut.stride, panel += 16 * k;
    }
}

/* Tiles as functions, so that each has the registers for itself. */
#define LB_W4_TILE_OF(rows)                                                                                                                \
    static __attribute__((noinline)) void lb_w4_tile##rows(const uint8_t *a, ptrdiff_t stride, const int8_t *panel, const int16_t *starts, \
                                                           ptrdiff_t k, ptrdiff_t chunk, int more, int32_t *acc) {                         \
        lb_w4_tile(rows, a, stride, panel, starts, k, chunk, more, acc);                                                                   \
    }
#define LB_W4_TILE_BLOCKS_OF(rows)                                                                                                         \
    static __attribute__((noinline)) void lb_w4_tile_blocks##rows(const lb_w4_product *p, const lb_w4_scratch *s, ptrdiff_t row,           \
                                                                  int32_t first, int32_t last, const float *scales, float *total) {        \
        lb_w4_tile_blocks(rows, lb_w4_tile##rows, p, s, row, first, last, scales, total);                                                  \
    }

/* acc += `groups` groups of a packed panel, for few rows: nibbles (unsigned) times x (signed). `weights` += the nibbles alone. */
LB_INLINE void lb_w4_few(const int rows, const uint8_t *a, ptrdiff_t stride, const uint8_t *packed, ptrdiff_t groups,
                         __m256i acc[LB_W4_FEW][2], const int summed, __m256i weights[2]) {
    const __m256i low = _mm256_set1_epi8(15), ones = _mm256_set1_epi8(1), words = _mm256_set1_epi16(1);
    for (ptrdiff_t g = 0; g < groups; g++, packed += LB_W4_GROUP_BYTES, a += LB_W4_GROUP) {
        __m256i c[LB_W4_FEW][2], n[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
        for (int i = 0; i < rows; i++)
            c[i][0] = c[i][1] = _mm256_setzero_si256();
        for (int s = 0; s < 4; s++) /* memory's own guess is too late; numbers, as it may lie behind the last */
            _mm_prefetch((const char *)((uintptr_t)packed + LB_W4_STREAM + 64 * (uintptr_t)s), _MM_HINT_T0);
        for (int s = 0; s < 4; s++)
            for (int h = 0; h < 2; h++) {
                const __m256i v = _mm256_load_si256((const __m256i *)(const void *)(packed + 64 * s + 32 * h));
                const __m256i w0 = _mm256_and_si256(v, low), w1 = _mm256_and_si256(_mm256_srli_epi16(v, 4), low);
                for (int i = 0; i < rows; i++) {
                    const __m256i a0 = _mm256_set1_epi32(*(const lb_w4_dword *)(const void *)(a + i * stride + 4 * s));
                    const __m256i a1 = _mm256_set1_epi32(*(const lb_w4_dword *)(const void *)(a + i * stride + 16 + 4 * s));
                    const __m256i both = _mm256_add_epi16(_mm256_maddubs_epi16(w0, a0), _mm256_maddubs_epi16(w1, a1));
                    c[i][h] = _mm256_add_epi16(c[i][h], both);
                }
                if (summed) /* of bytes: 8 * 15 fits */
                    n[h] = _mm256_add_epi8(n[h], _mm256_add_epi8(w0, w1));
            }
        for (int i = 0; i < rows; i++)
            for (int h = 0; h < 2; h++)
                acc[i][h] = _mm256_add_epi32(acc[i][h], _mm256_madd_epi16(c[i][h], words));
        for (int h = 0; h < 2 && summed; h++)
            weights[h] = _mm256_add_epi32(weights[h], _mm256_madd_epi16(_mm256_maddubs_epi16(n[h], ones), words));
    }
}

#endif

#ifndef LB_DOT4_AVX512VNNI_H

/* s.acc (rows x 16) = the sums of a panel for few rows: integers of one segment, or the scaled sum of all. */
LB_INLINE void lb_w4_few_rows(const int rows, const lb_w4_product *p, const lb_w4_scratch *s, const uint8_t *packed, const float *scales,
                              const int summed) {
    __m256 total[LB_W4_FEW][2];
    for (int i = 0; i < rows; i++)
        total[i][0] = total[i][1] = _mm256_setzero_ps();
    for (int32_t g = 0; g < p->cut.segments; g++) {
        const ptrdiff_t k = lb_w4_segment_depth(&p->cut, g);
        __m256i acc[LB_W4_FEW][2], weights[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
        for (int i = 0; i < rows; i++)
            acc[i][0] = acc[i][1] = _mm256_set1_epi32((int32_t)(0u - 8u * (uint32_t)s->sums[g * LB_W4_FEW + i]));
        lb_w4_few(rows, s->a + g * p->cut.stride, s->stride, packed, k / LB_W4_GROUP, acc, summed, weights);
        packed += k * 8;
        if (summed) { /* - x_zero * sum of w, where sum of w = sum of nibbles - 8 k */
            const __m256i zero = _mm256_set1_epi32(-p->x_zero), eight = _mm256_set1_epi32((int32_t)(-8 * k));
            for (int h = 0; h < 2; h++) {
                const __m256i off = _mm256_mullo_epi32(_mm256_add_epi32(weights[h], eight), zero);
                for (int i = 0; i < rows; i++)
                    acc[i][h] = _mm256_add_epi32(acc[i][h], off);
            }
        }
        for (int i = 0; i < rows; i++)
            for (int h = 0; h < 2; h++) {
                if (p->cut.segments == 1) {
                    _mm256_store_si256((__m256i *)(void *)(s->acc + 16 * i + 8 * h), acc[i][h]);
                    continue;
                }
                const __m256 scale = _mm256_loadu_ps(scales + 16 * g + 8 * h);
                total[i][h] = _mm256_add_ps(total[i][h], _mm256_mul_ps(_mm256_cvtepi32_ps(acc[i][h]), scale));
            }
    }
    for (int i = 0; i < rows && p->cut.segments > 1; i++)
        for (int h = 0; h < 2; h++)
            _mm256_store_ps((float *)(void *)(s->acc + 16 * i + 8 * h), total[i][h]);
}

#endif

#endif
