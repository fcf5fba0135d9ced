/* Weights of four bits by vpmaddubsw: activations + 128 (unsigned) times weights (signed), summed in 16 bits.
 *
 * Many rows: 16 channels of weights are unpacked to bytes once, so deep that they stay in the first-level cache, and tiles of 6 rows pass
 * over them. Sums begin at -(128 + x_zero) * (sum of their weights), modulo 2^16, so that a sum ends as the true one. The caller's `chunk`
 * makes the true sum fit; overflows on the way cancel.
 *
 * Few rows: nibbles go from memory to registers as they are, w + 8 (unsigned), against the activations (signed): 128 * 15 * 16 < 2^15, so
 * 32 elements fit, and 8 * (sum of x) is subtracted at the end. */
#ifndef LB_W4_MADDUBS_AVX2_H
#define LB_W4_MADDUBS_AVX2_H

#include "int4/w4_rows_avx2.h"

enum { LB_W4_STREAM = 2048 }; /* bytes of weights that are prefetched before they are read */

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

LB_W4_TILE_OF(6)
LB_W4_TILE_OF(4)
LB_W4_TILE_OF(2)
LB_W4_TILE_OF(1)

/* `rows` rows in tiles of 6, 4, 2 and 1. */
#define LB_W4_TILES(f, rows, i, ...)                                                                                                       \
    for (; i + 6 <= rows; i += 6)                                                                                                          \
        f##6(__VA_ARGS__);                                                                                                                 \
    if (i + 4 <= rows) {                                                                                                                   \
        f##4(__VA_ARGS__);                                                                                                                 \
        i += 4;                                                                                                                            \
    }                                                                                                                                      \
    if (i + 2 <= rows) {                                                                                                                   \
        f##2(__VA_ARGS__);                                                                                                                 \
        i += 2;                                                                                                                            \
    }                                                                                                                                      \
    if (i < rows)                                                                                                                          \
        f##1(__VA_ARGS__);

/* s.acc (rows x 16) = one segment of many rows and a panel. */
static inline void lb_w4_one_segment(const lb_w4_product *p, const lb_w4_scratch *s, ptrdiff_t rows, const uint8_t *packed) {
    const ptrdiff_t chunk = p->chunk < LB_W4_DEPTH ? p->chunk : LB_W4_DEPTH, deep = LB_W4_DEPTH / chunk * chunk;
    if (!p->cut.depth)
        memset(s->acc, 0, 64 * (size_t)rows);
    for (ptrdiff_t at = 0; at < p->cut.depth; at += deep) {
        const ptrdiff_t k = p->cut.depth - at < deep ? p->cut.depth - at : deep;
        for (ptrdiff_t c = 0; c < k; c += chunk)
            lb_w4_unpack(packed + 8 * (at + c), (k - c < chunk ? k - c : chunk) / LB_W4_GROUP, 128 + p->x_zero, s->panel + 16 * c,
                         s->starts + c / chunk * 32);
        lb_w4_ahead next = lb_w4_ahead_of(packed + 8 * (at + k), 8 * k, rows / LB_W4_TILE);
        ptrdiff_t i = 0;
        for (; i + LB_W4_TILE <= rows; i += LB_W4_TILE) {
            lb_w4_fetch(&next);
            lb_w4_tile6(s->a + i * s->stride + at, s->stride, s->panel, s->starts, k, chunk, at > 0, s->acc + 16 * i);
        }
        LB_W4_TILES(lb_w4_tile, rows, i, s->a + i * s->stride + at, s->stride, s->panel, s->starts, k, chunk, at > 0, s->acc + 16 * i)
    }
}

LB_W4_TILE_BLOCKS_OF(6)
LB_W4_TILE_BLOCKS_OF(4)
LB_W4_TILE_BLOCKS_OF(2)
LB_W4_TILE_BLOCKS_OF(1)

/* s.acc (rows x 16) = the scaled sum of all segments of many rows and a panel. */
static inline void lb_w4_segments(const lb_w4_product *p, const lb_w4_scratch *s, ptrdiff_t rows, const uint8_t *packed,
                                  const float *scales) {
    const int32_t each = (int32_t)(p->cut.stride < LB_W4_DEPTH ? LB_W4_DEPTH / p->cut.stride : 1);
    memset(s->acc, 0, 64 * (size_t)rows);
    for (int32_t first = 0; first < p->cut.segments; first += each) {
        const int32_t last = p->cut.segments - first < each ? p->cut.segments : first + each;
        int8_t *panel = s->panel;
        int16_t *starts = s->starts;
        for (int32_t g = first; g < last; g++) {
            const ptrdiff_t k = lb_w4_segment_depth(&p->cut, g);
            for (ptrdiff_t c = 0; c < k; c += p->chunk, starts += 32)
                lb_w4_unpack(packed + 8 * (g * p->cut.stride + c), (k - c < p->chunk ? k - c : p->chunk) / LB_W4_GROUP, 128 + p->x_zero,
                             panel + 16 * c, starts);
            panel += 16 * k;
        }
        ptrdiff_t i = 0;
        float *total = (float *)(void *)s->acc;
        LB_W4_TILES(lb_w4_tile_blocks, rows, i, p, s, i, first, last, scales, total + 16 * i)
    }
}

#endif
