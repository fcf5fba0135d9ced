/* The loops of gemm_s8 on AVX2; the caller has the epilogue (gemm_s8_s32, gemm_s8_f32, ...). */
#ifndef LB_GEMM_S8_TILES_AVX2_H
#define LB_GEMM_S8_TILES_AVX2_H

#include "gemm/gemm_s8_avx2.h"
#include "base/unroll.h"

enum { LB_CHUNK = 512 }; /* k at a time: 16 columns of them are half of a first-level cache */

typedef int32_t __attribute__((may_alias)) lb_dword;

/* One segment of one row of a, widened and reordered; gives the sum of a0 a1, negated. */
static inline int32_t lb_pack_row(const int8_t *a, int32_t k, int32_t a_unsigned, int32_t zero_point, int16_t *out) {
    const __m128i order = _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
    const __m128i flip = _mm_set1_epi8((char)(a_unsigned ? -128 : 0));
    const __m256i zero = _mm256_set1_epi16((int16_t)(zero_point - (a_unsigned ? 128 : 0)));
    __m256i pairs = _mm256_setzero_si256();
    for (int32_t i = 0; i < k; i += LB_STEP) {
        int8_t tail[LB_STEP];
        const int8_t *from = a + i;
        if (k - i < LB_STEP) {
            memset(tail, zero_point, sizeof tail);
            memcpy(tail, from, (size_t)(k - i));
            from = tail;
        }
        const __m128i bytes = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)from), order);
        const __m256i v = _mm256_sub_epi16(_mm256_cvtepi8_epi16(_mm_xor_si128(bytes, flip)), zero);
        /* a0 a2 | a1 a3 against a1 a3 | 0 0 */
        pairs = _mm256_sub_epi32(pairs, _mm256_madd_epi16(v, _mm256_srli_epi64(v, 32)));
        _mm256_store_si256((__m256i *)(void *)(out + i), v);
    }
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
    return _mm_cvtsi128_si32(sum); /* the odd dwords are zero */
}

/* Four k of one row and 16 columns. In assembly, because compilers move the loads of other rows here and then run out of the 16
 * registers that this needs: 8 accumulators, 4 of b, 4 here. */
LB_INLINE void lb_step(__m256i c[2], const int16_t *a, const __m256i w[4]) {
    __m256i even, odd, t, u;
    __asm__("vpbroadcastd %[a02], %[even]\n\t"
            "vpbroadcastd %[a13], %[odd]\n\t"
            "vpaddw %[w13l], %[even], %[t]\n\t"
            "vpaddw %[w02l], %[odd], %[u]\n\t"
            "vpaddw %[w13h], %[even], %[even]\n\t"
            "vpaddw %[w02h], %[odd], %[odd]\n\t"
            "vpmaddwd %[t], %[u], %[t]\n\t"
            "vpmaddwd %[even], %[odd], %[even]\n\t"
            "vpaddd %[t], %[c0], %[c0]\n\t"
            "vpaddd %[even], %[c1], %[c1]"
            : [c0] "+x"(c[0]), [c1] "+x"(c[1]), [even] "=&x"(even), [odd] "=&x"(odd), [t] "=&x"(t), [u] "=&x"(u)
            : [a02] "m"(*(const lb_dword *)(const void *)a), [a13] "m"(*(const lb_dword *)(const void *)(a + 2)), [w13l] "x"(w[0]),
              [w13h] "x"(w[1]), [w02l] "x"(w[2]), [w02h] "x"(w[3]));
}

/* c (rows x 16) += k steps of `rows` rows of a and one panel. k is a multiple of LB_STEP. */
LB_INLINE void lb_steps(const int rows, const int16_t *a, ptrdiff_t stride, const int16_t *b, ptrdiff_t k, __m256i c[LB_TILE][2]) {
    for (const int16_t *end = a + k; a < end; a += 8)
        for (int half = 0; half < 2; half++, b += 4 * LB_PANEL) {
            __m256i w[4];
            for (int i = 0; i < 4; i++)
                w[i] = _mm256_load_si256((const __m256i *)(const void *)(b + 16 * i));
            LB_UNROLL
            for (int i = 0; i < rows; i++)
                lb_step(c[i], a + i * stride + 4 * half, w);
        }
}

/* The same in memory. */
LB_INLINE void lb_tile(const int rows, const int16_t *a, ptrdiff_t stride, const int16_t *b, ptrdiff_t k, int32_t *acc) {
    __m256i c[LB_TILE][2];
    for (int i = 0; i < rows; i++) {
        c[i][0] = _mm256_load_si256((const __m256i *)(const void *)(acc + i * LB_PANEL));
        c[i][1] = _mm256_load_si256((const __m256i *)(const void *)(acc + i * LB_PANEL + 8));
    }
    lb_steps(rows, a, stride, b, k, c);
    for (int i = 0; i < rows; i++) {
        _mm256_store_si256((__m256i *)(void *)(acc + i * LB_PANEL), c[i][0]);
        _mm256_store_si256((__m256i *)(void *)(acc + i * LB_PANEL + 8), c[i][1]);
    }
}

static void lb_tile4(const int16_t *a, ptrdiff_t stride, const int16_t *b, ptrdiff_t k, int32_t *acc) {
    lb_tile(4, a, stride, b, k, acc);
}

static void lb_tile2(const int16_t *a, ptrdiff_t stride, const int16_t *b, ptrdiff_t k, int32_t *acc) {
    lb_tile(2, a, stride, b, k, acc);
}

static void lb_tile1(const int16_t *a, ptrdiff_t stride, const int16_t *b, ptrdiff_t k, int32_t *acc) {
    lb_tile(1, a, stride, b, k, acc);
}

/* acc (rows x 16) += k steps of `rows` packed rows and one panel. */
static inline void lb_long_steps(int32_t *acc, ptrdiff_t rows, const int16_t *a, ptrdiff_t stride, const int16_t *b, ptrdiff_t k) {
    for (ptrdiff_t at = 0; at < k; at += LB_CHUNK) {
        const ptrdiff_t chunk = k - at < LB_CHUNK ? k - at : LB_CHUNK;
        const int16_t *panel = b + at * LB_PANEL;
        ptrdiff_t i = 0;
        for (; i + 4 <= rows; i += 4)
            lb_tile4(a + i * stride + at, stride, panel, chunk, acc + i * LB_PANEL);
        if (i + 2 <= rows) {
            lb_tile2(a + i * stride + at, stride, panel, chunk, acc + i * LB_PANEL);
            i += 2;
        }
        if (i < rows)
            lb_tile1(a + i * stride + at, stride, panel, chunk, acc + i * LB_PANEL);
    }
}

/* s.acc (rows x 16) = one segment of `rows` packed rows and one panel, without the panel's pairs. */
static inline void lb_segment(const lb_scratch *s, ptrdiff_t rows, const int16_t *a, const int32_t *a_pairs, const int16_t *b,
                              ptrdiff_t k) {
    for (ptrdiff_t i = 0; i < rows; i++) {
        const __m256i start = _mm256_set1_epi32(a_pairs[i]);
        _mm256_store_si256((__m256i *)(void *)(s->acc + i * LB_PANEL), start);
        _mm256_store_si256((__m256i *)(void *)(s->acc + i * LB_PANEL + 8), start);
    }
    lb_long_steps(s->acc, rows, a, s->stride, b, k);
}

/* Rows `at` and following of a into s.a, with their pairs. */
static inline void lb_pack_rows(const lb_scratch *s, lb_cut cut, const int8_t *a, int64_t a_stride, int32_t a_unsigned,
                                const int32_t *zero_points, int32_t m, int32_t k, int32_t segment, ptrdiff_t at, ptrdiff_t rows) {
    for (ptrdiff_t i = 0; i < rows; i++)
        for (int32_t g = 0; g < cut.segments; g++)
            s->a_pairs[g * s->rows + i] =
                lb_pack_row(a + (at + i) * a_stride + (int64_t)g * segment, lb_segment_length(k, segment, g), a_unsigned,
                            zero_points[(int64_t)g * m + at + i], s->a + i * s->stride + g * cut.stride);
}

/* 16 dwords, or the first `count` of them, to any address. */
static inline void lb_store16(void *out, const void *from, ptrdiff_t count) {
    if (count >= LB_PANEL)
        memcpy(out, from, 4 * LB_PANEL); /* two stores, where the other is a call */
    else
        memcpy(out, from, 4 * (size_t)count);
}

#endif
