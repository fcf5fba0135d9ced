/* Products by madd16 (gemm_s8_avx2.h) with an eighth fewer multiplications, exact for all weights and activations: Strassen's seven
 * products of halves, in the form of Winograd, which shares sums. Even rows are the upper half of the activations A, odd ones the lower;
 * k is in two halves, and so are 32 columns of the weights B:
 *
 *   a11 b11, a12 b21, (a21 + a22 - a11) (b22 - b12 + b11), (a11 - a21) (b22 - b12), (a21 + a22) (b12 - b11),
 *   a22 (b21 - b22 + b12 - b11), (a12 - a21 - a22 + a11) b22
 *
 * Activations less their zero point are within +-255 and weights within +-128, so that factors are within +-1020 and +-512: sums of pairs
 * fit int16, products int32, and what passes 2^32 on the way is taken away again.
 *
 * Weights stand as maddubs_s8 has them, in bytes: factors of 32 columns are made for every block of rows. */
#ifndef LB_STRASSEN_AVX2_H
#define LB_STRASSEN_AVX2_H

#include "linear/avx2/product_avx2.h"

enum {
    LB_STRASSEN_LEAST = 12, /* rows from which on making factors of weights is worth it */
    LB_STRASSEN_FROM = 28,  /* mean of |d| from which on it is faster than maddubs_s8, of very many rows */
    LB_STRASSEN_MORE = 256  /* of fewer: so much more, divided by their number */
};

/* The factors by number, as they stand above. */
enum { LB_A11, LB_A12, LB_BOTH_2, LB_BOTH_3, LB_BOTH_1, LB_A22, LB_B22 };

/* Whether rows are so far from their zero point that maddubs_s8 has no use for them: of every fourth one. */
static inline int lb_is_far(const int8_t *x, ptrdiff_t rows, int32_t k, int32_t x_zero) {
    const __m256i flip = _mm256_set1_epi8(-128), zero = _mm256_xor_si256(_mm256_set1_epi8((char)x_zero), flip);
    int64_t size = 0, count = 0;
    for (ptrdiff_t i = 0; i < rows; i += 4, count += k / 32 * 32) {
        __m256i sum = _mm256_setzero_si256();
        for (int32_t at = 0; at + 32 <= k; at += 32) {
            const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(x + i * k + at));
            sum = _mm256_add_epi64(sum, _mm256_sad_epu8(_mm256_xor_si256(v, flip), zero));
        }
        size += lb_maddubs_s8_total(sum);
    }
    return size * rows > (LB_STRASSEN_FROM * rows + LB_STRASSEN_MORE) * count;
}

/* 16 activations from k on less their zero point, as madd16 wants them; zeros where there are none. */
LB_INLINE __m256i lb_strassen_load(const int8_t *a, ptrdiff_t k, ptrdiff_t at, __m256i zero) {
    const __m128i order = _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
    if (!a || at >= k)
        return _mm256_setzero_si256();
    __m128i bytes;
    if (k - at < LB_STEP) {
        bytes = _mm_packs_epi16(_mm256_castsi256_si128(zero), _mm256_castsi256_si128(zero));
        memcpy(&bytes, a + at, (size_t)(k - at));
    } else
        bytes = _mm_loadu_si128((const __m128i *)(const void *)(a + at));
    return _mm256_sub_epi16(_mm256_cvtepi8_epi16(_mm_shuffle_epi8(bytes, order)), zero);
}

LB_INLINE int32_t lb_strassen_sum(__m256i v) {
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1)));
}

/* What pairs of the factors give to a quarter of the results (even rows on the left, on the right, odd rows), and is taken away from it. */
LB_INLINE __m256i lb_strassen_taken(int quarter, const __m256i pairs[7]) {
    static const int8_t own[4][4] = {{LB_A11, LB_A12},
                                     {LB_A11, LB_BOTH_2, LB_BOTH_1, LB_B22},
                                     {LB_A11, LB_BOTH_2, LB_BOTH_3, LB_A22},
                                     {LB_A11, LB_BOTH_2, LB_BOTH_3, LB_BOTH_1}};
    __m256i taken = _mm256_setzero_si256();
    for (int i = 0; i < (quarter ? 4 : 2); i++)
        taken = _mm256_sub_epi32(taken, pairs[own[quarter][i]]);
    return taken;
}

/* Factors of two rows; the odd one may not be there. */
static inline void lb_strassen_rows(const lb_strassen *s, ptrdiff_t pair, const int8_t *even, const int8_t *odd, int32_t k,
                                    int32_t x_zero) {
    const __m256i zero = _mm256_set1_epi16((int16_t)x_zero);
    const ptrdiff_t apart = s->rows / 2 * s->stride;
    __m256i pairs[7], sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    LB_UNROLL
    for (int f = 0; f < 7; f++)
        pairs[f] = _mm256_setzero_si256();
    int16_t *out = s->a + pair * s->stride;
    for (ptrdiff_t at = 0; at < s->half; at += LB_STEP) {
        const __m256i a11 = lb_strassen_load(even, k, at, zero), a12 = lb_strassen_load(even, k, s->half + at, zero);
        const __m256i a21 = lb_strassen_load(odd, k, at, zero), a22 = lb_strassen_load(odd, k, s->half + at, zero);
        const __m256i lower = _mm256_add_epi16(a21, a22), less = _mm256_sub_epi16(lower, a11);
        sums[0] = _mm256_add_epi32(sums[0], _mm256_madd_epi16(_mm256_add_epi16(a11, a12), _mm256_set1_epi16(1)));
        sums[1] = _mm256_add_epi32(sums[1], _mm256_madd_epi16(lower, _mm256_set1_epi16(1)));
        const __m256i factors[7] = {a11, a12, less, _mm256_sub_epi16(a11, a21), lower, a22, _mm256_sub_epi16(a12, less)};
        LB_UNROLL
        for (int f = 0; f < 7; f++) {
            _mm256_store_si256((__m256i *)(void *)(out + f * apart + at), factors[f]);
            /* a0 a2 | a1 a3 against a1 a3 | 0 0 */
            pairs[f] = _mm256_add_epi32(pairs[f], _mm256_madd_epi16(factors[f], _mm256_srli_epi64(factors[f], 32)));
        }
    }
    for (int i = 0; i < 4; i++)
        s->sums[4 * pair + i] = lb_strassen_sum(_mm256_sub_epi32(lb_strassen_taken(i, pairs), _mm256_slli_epi32(sums[i / 2], 7)));
}

/* Two panels of 16 columns of maddubs_s8, of which the second may not be there, multiplied with the rows in s. */
typedef struct {
    lb_product p[2]; /* of even rows, and of odd ones: rows of their own */
    const lb_strassen *s;
    ptrdiff_t n, rows;
    lb_eight e[2][2];     /* of both panels */
    const uint8_t *w[2];  /* of both panels, the second may be NULL */
    ptrdiff_t depth;      /* of them */
    ptrdiff_t at, length; /* k of each half, a chunk of it */
    __m256i pairs[2][7];  /* what pairs of weights give, in the chunk; of both halves of a panel */
} lb_strassen_work;

/* Odd and even k of four k of eight columns. */
LB_INLINE void lb_strassen_widen(const uint8_t *w, __m256i out[2]) {
    const __m256i v = _mm256_load_si256((const __m256i *)(const void *)w);
    out[0] = _mm256_srli_epi16(v, 8);
    out[1] = _mm256_and_si256(v, _mm256_set1_epi16(255));
}

#define LB_STRASSEN_BYTES(v) v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v

/* A factor of the weights, plus 128, of both panels. */
LB_INLINE void lb_strassen_columns(const int factor, lb_strassen_work *t) {
    static const _Alignas(64)
        uint8_t none[64] = {LB_STRASSEN_BYTES(128), LB_STRASSEN_BYTES(128), LB_STRASSEN_BYTES(128), LB_STRASSEN_BYTES(128)};
    const ptrdiff_t half = t->s->half;
    __m256i pairs[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()}, *out = (__m256i *)(void *)t->s->b;
    for (ptrdiff_t k = t->at; k < t->at + t->length; k += 4, out += 4)
        LB_UNROLL
    for (int side = 0; side < 2; side++) {
        const ptrdiff_t upper = k * LB_PANEL + 32 * side, lower = upper + half * LB_PANEL;
        const int whole = k + half < t->depth;
        __m256i b11[2], b12[2], b21[2], b22[2], v[2];
        lb_strassen_widen(t->w[0] + upper, b11);
        lb_strassen_widen(t->w[1] ? t->w[1] + upper : none, b12);
        lb_strassen_widen(whole ? t->w[0] + lower : none, b21);
        lb_strassen_widen(t->w[1] && whole ? t->w[1] + lower : none, b22);
        LB_UNROLL
        for (int i = 0; i < 2; i++) {
            const __m256i over = _mm256_sub_epi16(b12[i], b11[i]), rest = _mm256_sub_epi16(b22[i], over);
            v[i] = factor == LB_A11      ? b11[i]
                   : factor == LB_A12    ? b21[i]
                   : factor == LB_BOTH_2 ? rest
                   : factor == LB_BOTH_3 ? _mm256_sub_epi16(b22[i], b12[i])
                   : factor == LB_BOTH_1 ? over
                   : factor == LB_A22    ? _mm256_sub_epi16(b21[i], rest)
                                         : b22[i];
            _mm256_store_si256(out + 2 * i + side, v[i]);
        }
        pairs[side] = _mm256_add_epi32(pairs[side], _mm256_madd_epi16(v[0], v[1]));
    }
    t->pairs[0][factor] = pairs[0], t->pairs[1][factor] = pairs[1];
}

/* Some rows of a quarter of the results, or what they are so far. */
static __attribute__((noinline)) void lb_strassen_epilogue(const lb_strassen_work *t, int quarter, ptrdiff_t i, int rows,
                                                           const __m256i sums[4][2]) {
    const int odd = quarter / 2, side = quarter % 2;
    const lb_eight *e = t->e[side];
    __m256i *acc = (__m256i *)(void *)(t->s->acc + (quarter * (t->s->rows / 2) + i) * LB_PANEL), c[4][2];
    const int first = t->at == 0, last = t->at + t->length == t->s->half;
    for (int half = 0; half < 2; half++) {
        const __m256i taken = lb_strassen_taken(quarter, t->pairs[half]);
        for (int r = 0; r < rows; r++) {
            const __m256i before = first ? _mm256_set1_epi32(t->s->sums[4 * (i + r) + quarter]) : acc[2 * r + half];
            c[r][half] = _mm256_add_epi32(_mm256_add_epi32(sums[r][half], before), taken);
            if (!last)
                acc[2 * r + half] = c[r][half];
            c[r][half] = _mm256_add_epi32(c[r][half], e[half].start);
        }
    }
    if (!last)
        return;
    const ptrdiff_t there = (t->rows + 1 - odd) / 2 - i, n = t->n + side * LB_PANEL;
    if (there >= 4 && rows == 4)
        lb_epilogue16(4, &t->p[odd], i, n, c, e);
    else
        for (int r = 0; r < rows && r < there; r++)
            lb_epilogue16(1, &t->p[odd], i + r, n, c + r, e);
}

/* A product of factors, for some rows. */
LB_INLINE void lb_strassen_tile(const int rows, const int factor, const lb_strassen_work *t, ptrdiff_t i) {
    const lb_strassen *s = t->s;
    __m256i *shared = (__m256i *)(void *)(s->shared + i * LB_PANEL), *odd = shared + s->rows / 2 * (LB_PANEL / 8), c[4][2];
    const __m256i *from = factor == LB_A22 ? odd : shared;
    LB_UNROLL
    for (int r = 0; r < 2 * rows; r++)
        c[r / 2][r % 2] = factor == LB_A11 || factor == LB_BOTH_1 ? _mm256_setzero_si256() : from[r];
    lb_steps(rows, s->a + (factor * (s->rows / 2) + i) * s->stride + t->at, s->stride, s->b, t->length, c);
    LB_UNROLL
    for (int r = 0; r < 2 * rows; r++) {
        if (factor == LB_A11 || factor == LB_BOTH_2)
            shared[r] = c[r / 2][r % 2];
        else if (factor == LB_BOTH_3)
            odd[r] = c[r / 2][r % 2];
        else if (factor == LB_BOTH_1) {
            shared[r] = _mm256_add_epi32(shared[r], c[r / 2][r % 2]);
            c[r / 2][r % 2] = _mm256_add_epi32(odd[r], c[r / 2][r % 2]);
        }
    }
    if (factor == LB_A11 || factor == LB_BOTH_2 || factor == LB_BOTH_3)
        return;
    __m256i copy[4][2];
    LB_UNROLL
    for (int r = 0; r < 2 * rows; r++)
        copy[r / 2][r % 2] = c[r / 2][r % 2];
    lb_strassen_epilogue(t, factor == LB_A12 ? 0 : factor == LB_B22 ? 1 : factor == LB_A22 ? 2 : 3, i, rows, (const __m256i(*)[2])copy);
}

LB_INLINE void lb_strassen_pass(const int factor, lb_strassen_work *t) {
    lb_strassen_columns(factor, t);
    const ptrdiff_t pairs = (t->rows + 1) / 2;
    ptrdiff_t i = 0;
    for (; i + 4 <= pairs; i += 4)
        lb_strassen_tile(4, factor, t, i);
    if (i + 2 <= pairs) {
        lb_strassen_tile(2, factor, t, i);
        i += 2;
    }
    if (i < pairs)
        lb_strassen_tile(1, factor, t, i);
}

/* Columns left ... right - 1 of the `rows` rows in s, which are rows first, first + 1, ... of out. Weights are those of maddubs_s8. */
static inline void lb_strassen_multiply(const lb_product *p, const lb_strassen *s, ptrdiff_t first, ptrdiff_t rows, ptrdiff_t left,
                                        ptrdiff_t right) {
    const uint8_t *own = (const uint8_t *)p->packed + lb_weights_front(p->n);
    const ptrdiff_t element = p->to == LB_TO_F32 ? 4 : p->to == LB_TO_S16 ? 2 : 1;
    const ptrdiff_t chunks = (s->half + LB_STRASSEN_CHUNK - 1) / LB_STRASSEN_CHUNK;
    const ptrdiff_t chunk = chunks ? lb_round_up((s->half + chunks - 1) / chunks, LB_STEP) : 0; /* about equal ones */
    lb_strassen_work t = {.p = {*p, *p}, .s = s, .rows = rows, .depth = lb_round_up(p->k, LB_STEP)};
    for (int odd = 0; odd < 2; odd++) {
        t.p[odd].out = (char *)p->out + element * (first + odd) * p->out_stride;
        t.p[odd].out_stride = 2 * p->out_stride;
    }
    for (t.n = left; t.n < right; t.n += 2 * LB_PANEL) {
        const int both = t.n + LB_PANEL < right;
        for (int side = 0; side < 2; side++) {
            const lb_panel_work own_side = lb_panel_work_at(p, NULL, first, t.n + side * both * LB_PANEL, right);
            t.e[side][0] = own_side.e[0], t.e[side][1] = own_side.e[1];
        }
        t.w[0] = own + t.n * t.depth, t.w[1] = both ? t.w[0] + LB_PANEL * t.depth : NULL;
        for (t.at = 0; t.at < s->half; t.at += t.length) {
            t.length = s->half - t.at < chunk ? s->half - t.at : chunk;
            lb_strassen_pass(LB_A11, &t);
            lb_strassen_pass(LB_A12, &t);
            lb_strassen_pass(LB_BOTH_2, &t);
            lb_strassen_pass(LB_BOTH_3, &t);
            if (both)
                lb_strassen_pass(LB_BOTH_1, &t);
            lb_strassen_pass(LB_A22, &t);
            if (both)
                lb_strassen_pass(LB_B22, &t);
        }
    }
}

#endif
