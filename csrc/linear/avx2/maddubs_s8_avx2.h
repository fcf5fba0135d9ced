/* Products of bytes by vpmaddubsw, exact for all weights and activations, fast where activations are near their zero point.
 *
 * Weights are unsigned (w + 128), activations signed (d = a - zero point). A lane of int16 gets d0 (w0 + 128) + d1 (w1 + 128), within
 * 255 * 128 < 2^15 where positive d sum up to 128 at most, and negative ones to -128. So a row is proved to fit while it is brought into
 * form, whatever the weights are. Its d are cut so that pairs fit; what was cut off, a few of a hundred, becomes quads of its own.
 *
 * Three rows make a tile. Its quads of four k are put into groups, whose lanes are added before they are widened: as many as fit from
 * anywhere, up to four. Positive d of a lane sum up to 128 at most and negative ones to -128, and so does every part of them, so that no
 * sum leaves int16 (maddubs_s8_groups_avx2.h). What was cut off makes groups in the same way; but each row's quads have weights of their
 * own, because rows are seldom cut at the same k. What a row gives to every column alike, 128 * (sum of d), is taken away in the end. Where
 * too much was cut off, d is multiplied in halves, d = 16 h + l: four neighbours of them always fit. That is for tiles; blocks of many such
 * rows go by strassen_avx2.h.
 *
 * Panels of 16 columns: k padded to 16, quads of four k of eight columns and of the next eight. A quad of a tile: four d of each row, and
 * where its weights are in a panel. One that was cut off: four d of each row and four unused, where each row's weights are, four unused. */
#ifndef LB_MADDUBS_S8_AVX2_H
#define LB_MADDUBS_S8_AVX2_H

#include "linear/avx2/maddubs_s8_groups_avx2.h"

enum {
    LB_MADDUBS_S8_PAIR = 128,
    LB_MADDUBS_S8_MOST = 48, /* mean of |d| up to which it is not halved */
};

/* What was cut off the rows of a tile: entry j of row i is number j * LB_MADDUBS_S8_ROWS + i. */
static inline lb_maddubs_s8_rest *lb_maddubs_s8_rests(const lb_rows *s, ptrdiff_t tile) {
    return (lb_maddubs_s8_rest *)(void *)(s->a + (tile + 1) * s->stride) - LB_MADDUBS_S8_ROWS * lb_maddubs_s8_rest_most(s->k);
}

/* Sums of pairs of bytes that are not negative, up to 254. */
LB_INLINE __m128i lb_pairs_of(__m128i bytes) {
    return _mm_maddubs_epi16(bytes, _mm_set1_epi8(1));
}

LB_INLINE __m128i lb_maddubs_s8_up(__m128i d) {
    return lb_pairs_of(_mm_max_epi8(d, _mm_setzero_si128()));
}

LB_INLINE __m128i lb_maddubs_s8_down(__m128i d) {
    return lb_maddubs_s8_up(_mm_sub_epi8(_mm_setzero_si128(), d));
}

/* Dwords of the same number of four vectors. */
LB_INLINE void lb_by_quads(__m128i v0, __m128i v1, __m128i v2, __m128i v3, __m128i quads[4]) {
    const __m128i a = _mm_unpacklo_epi32(v0, v1), b = _mm_unpacklo_epi32(v2, v3);
    const __m128i c = _mm_unpackhi_epi32(v0, v1), d = _mm_unpackhi_epi32(v2, v3);
    quads[0] = _mm_unpacklo_epi64(a, b), quads[1] = _mm_unpackhi_epi64(a, b);
    quads[2] = _mm_unpacklo_epi64(c, d), quads[3] = _mm_unpackhi_epi64(c, d);
}

/* Two vectors of four dwords of two lanes, which are 255 at most: dwords of four bytes. */
LB_INLINE __m128i lb_maddubs_s8_beside(__m128i a, __m128i b) {
    const __m128i bytes = _mm_packus_epi16(a, b);
    return _mm_unpacklo_epi16(bytes, _mm_unpackhi_epi64(bytes, bytes));
}

/* Where the weights of the four quads from k on are. */
LB_INLINE __m128i lb_maddubs_s8_places(int32_t k) {
    return _mm_add_epi32(_mm_set1_epi32(k * LB_PANEL), _mm_setr_epi32(0, 4 * LB_PANEL, 8 * LB_PANEL, 12 * LB_PANEL));
}

/* What was cut off the rows of a tile, in `out`; whether there was enough room. A row's quads are put one after the other, into the next
 * group where a lane would get too much. */
static inline int lb_maddubs_s8_rest_groups(const lb_maddubs_s8_rest *rest, uint8_t *out, lb_maddubs_s8_head *head) {
    const uint8_t *back = (const uint8_t *)rest;
    int32_t *all = &head->groups[LB_MADDUBS_S8_REST_KIND];
    for (int i = 0; i < LB_MADDUBS_S8_ROWS; i++) {
        int32_t slot = LB_MADDUBS_S8_RESTS, groups = 0;
        __m128i sums = _mm_setzero_si128();
        uint8_t *group = out;
        for (int32_t j = 0; j < head->cut[i]; j++) {
            const lb_maddubs_s8_rest own = rest[LB_MADDUBS_S8_ROWS * j + i];
            const __m128i d = _mm_cvtsi32_si128(own.d), more = _mm_unpacklo_epi32(lb_maddubs_s8_up(d), lb_maddubs_s8_down(d));
            sums = _mm_add_epi16(sums, more);
            if (slot == LB_MADDUBS_S8_RESTS || _mm_movemask_epi8(_mm_cmpgt_epi16(sums, _mm_set1_epi16(LB_MADDUBS_S8_PAIR)))) {
                group = out + groups++ * LB_MADDUBS_S8_REST_BYTES;
                if (groups > *all) {
                    if (back - group < LB_MADDUBS_S8_REST_BYTES)
                        return 0;
                    memset(group, 0, LB_MADDUBS_S8_REST_BYTES);
                    *all = groups;
                }
                slot = 0, sums = more;
            }
            memcpy(group + 32 * slot + 4 * i, &own.d, 4);
            memcpy(group + 32 * slot++ + 16 + 4 * i, &own.w, 4);
        }
    }
    return 1;
}

/* Groups of three rows; whether there was enough room. */
static inline int lb_maddubs_s8_groups(const lb_rows *s, ptrdiff_t tile, int32_t k) {
    lb_maddubs_s8_head *head = &s->heads[tile];
    uint8_t *out = s->a + tile * s->stride;
    uint8_t *quads = s->low + 2 * LB_MADDUBS_S8_ROWS * s->staged, *sums = quads + 4 * s->staged;
    uint16_t *lists = (uint16_t *)(void *)(sums + 4 * s->staged);
    for (int32_t at = 0; at < k; at += LB_STEP) {
        __m128i d[LB_MADDUBS_S8_ROWS], up[LB_MADDUBS_S8_ROWS], down[LB_MADDUBS_S8_ROWS], own[4], all[4];
        LB_UNROLL
        for (int i = 0; i < LB_MADDUBS_S8_ROWS; i++) {
            d[i] = _mm_loadu_si128((const __m128i *)(const void *)(s->low + (LB_MADDUBS_S8_ROWS + i) * s->staged + at));
            up[i] = lb_maddubs_s8_up(d[i]), down[i] = lb_maddubs_s8_down(d[i]);
        }
        lb_by_quads(d[0], d[1], d[2], lb_maddubs_s8_places(at), own);
        lb_by_quads(lb_maddubs_s8_beside(up[0], up[1]), lb_maddubs_s8_beside(up[2], down[0]), lb_maddubs_s8_beside(down[1], down[2]),
                    _mm_setzero_si128(), all);
        LB_UNROLL
        for (int i = 0; i < 4; i++) {
            _mm_store_si128((__m128i *)(void *)(quads + 4 * at + 16 * i), own[i]);
            _mm_store_si128((__m128i *)(void *)(sums + 4 * at + 16 * i), all[i]);
        }
    }
    ptrdiff_t lengths[LB_MADDUBS_S8_MOST_QUADS];
    lb_maddubs_s8_lists_of(sums, (int32_t)lb_round_up(k, LB_STEP) / 4, lists, s->staged, lengths);
    for (int i = 0; i < LB_MADDUBS_S8_MOST_QUADS; i++, lists += s->staged) {
        for (ptrdiff_t j = 0; j < lengths[i]; j++, out += 16)
            _mm_storeu_si128((__m128i *)(void *)out, _mm_load_si128((const __m128i *)(const void *)(quads + 16 * lists[j])));
        head->groups[LB_MADDUBS_S8_FOUR_KIND - i] = (int32_t)lengths[i] / (LB_MADDUBS_S8_MOST_QUADS - i);
    }
    return lb_maddubs_s8_rest_groups(lb_maddubs_s8_rests(s, tile), out, head);
}

/* Three rows in halves: groups of the upper ones, then as many of the lower ones, which are given. */
static inline int32_t lb_maddubs_s8_halves(const lb_rows *s, int32_t k, int32_t x_zero, uint8_t *out) {
    const __m256i zero = _mm256_set1_epi16((int16_t)x_zero), low = _mm256_set1_epi16(15);
    const int32_t groups = (int32_t)lb_round_up(k, LB_STEP) / LB_STEP;
    for (int32_t at = 0; at < k; at += LB_STEP, out += LB_MADDUBS_S8_FOUR_BYTES) {
        __m128i d[2][LB_MADDUBS_S8_ROWS];
        for (int i = 0; i < LB_MADDUBS_S8_ROWS; i++) {
            const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(s->low + i * s->staged + at));
            const __m256i v = _mm256_sub_epi16(_mm256_cvtepi8_epi16(bytes), zero);
            const __m256i both = _mm256_permute4x64_epi64(_mm256_packs_epi16(_mm256_srai_epi16(v, 4), _mm256_and_si256(v, low)), 0xD8);
            d[0][i] = _mm256_castsi256_si128(both), d[1][i] = _mm256_extracti128_si256(both, 1);
        }
        for (int half = 0; half < 2; half++) {
            __m128i quads[4];
            lb_by_quads(d[half][0], d[half][1], d[half][2], lb_maddubs_s8_places(at), quads);
            for (int i = 0; i < 4; i++)
                _mm_storeu_si128((__m128i *)(void *)(out + half * groups * LB_MADDUBS_S8_FOUR_BYTES + 16 * i), quads[i]);
        }
    }
    return groups;
}

/* The tile of the three rows that are there. Quads have numbers of 16 bits. */
static inline void lb_maddubs_s8_tile_of(const lb_rows *s, ptrdiff_t tile, int32_t k, int32_t x_zero) {
    lb_maddubs_s8_head *head = &s->heads[tile];
    const int64_t mean = head->size / ((head->rows ? head->rows : 1) * (int64_t)(k ? k : 1));
    int32_t most = 0;
    for (int i = 0; i < LB_MADDUBS_S8_ROWS; i++)
        most = head->cut[i] > most ? head->cut[i] : most;
    if (most <= lb_maddubs_s8_rest_most(k) && mean <= LB_MADDUBS_S8_MOST && k <= 4 << 16 && lb_maddubs_s8_groups(s, tile, k))
        return;
    memset(head->groups, 0, sizeof head->groups);
    head->halves = head->groups[LB_MADDUBS_S8_FOUR_KIND] = lb_maddubs_s8_halves(s, k, x_zero, s->a + tile * s->stride);
}

/* As much of bytes that pairs of them sum up to 128 at most, and one is 127 at most. */
LB_INLINE __m256i lb_maddubs_s8_cut(__m256i v) {
    const __m256i other = _mm256_or_si256(_mm256_slli_epi16(v, 8), _mm256_srli_epi16(v, 8)),
                  half = _mm256_set1_epi8(LB_MADDUBS_S8_PAIR / 2);
    const __m256i most = _mm256_max_epu8(_mm256_subs_epu8(_mm256_set1_epi8(-LB_MADDUBS_S8_PAIR), other), half);
    return _mm256_min_epu8(v, _mm256_min_epu8(most, _mm256_set1_epi8(127)));
}

/* What was cut off a row's d from k on, upwards and downwards: quads of their own, as many as it takes. */
static inline void lb_maddubs_s8_off(lb_maddubs_s8_head *head, lb_maddubs_s8_rest *rest, int row, int32_t k, int32_t most, __m256i up,
                                     __m256i down) {
    const __m256i none = _mm256_setzero_si256();
    do {
        const __m256i up_now = lb_maddubs_s8_cut(up), down_now = lb_maddubs_s8_cut(down), d = _mm256_sub_epi8(up_now, down_now);
        _Alignas(32) int32_t quads[8];
        _mm256_store_si256((__m256i *)(void *)quads, d);
        up = _mm256_sub_epi8(up, up_now), down = _mm256_sub_epi8(down, down_now);
        uint32_t there = ~(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(d, none))) & 255u;
        for (; there; there &= there - 1) {
            const int quad = __builtin_ctz(there);
            if (head->cut[row]++ < most)
                rest[LB_MADDUBS_S8_ROWS * (head->cut[row] - 1) + row] =
                    (lb_maddubs_s8_rest){(uint32_t)((k + 4 * quad) * LB_PANEL), quads[quad]};
        }
    } while (!_mm256_testz_si256(up, up) || !_mm256_testz_si256(down, down));
}

LB_INLINE int64_t lb_maddubs_s8_total(__m256i four) {
    const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
    return _mm_cvtsi128_si64(two) + _mm_extract_epi64(two, 1);
}

/* Row i of s; rows come one after the other. Without `a` there is no such row. */
static inline void lb_maddubs_s8_row(const lb_rows *s, ptrdiff_t i, const int8_t *a, int32_t k, int32_t x_zero) {
    const int row = (int)(i % LB_MADDUBS_S8_ROWS);
    const int32_t most = lb_maddubs_s8_rest_most(k);
    uint8_t *as_is = s->low + row * s->staged, *cut = as_is + LB_MADDUBS_S8_ROWS * s->staged;
    lb_maddubs_s8_head *head = &s->heads[i / LB_MADDUBS_S8_ROWS];
    lb_maddubs_s8_rest *rest = lb_maddubs_s8_rests(s, i / LB_MADDUBS_S8_ROWS);
    if (row == 0)
        memset(head, 0, sizeof *head);
    head->rows += a != NULL;
    if (a)
        memcpy(as_is, a, (size_t)k);
    memset(as_is + (a ? k : 0), x_zero, (size_t)(s->staged - (a ? k : 0)));
    const __m256i flip = _mm256_set1_epi8(-128), least = _mm256_xor_si256(_mm256_set1_epi8((char)x_zero), flip);
    const __m256i none = _mm256_setzero_si256();
    __m256i size = none, sum = none;
    for (int32_t at = 0; at < s->staged; at += 32) {
        const __m256i v = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(const void *)(as_is + at)), flip);
        const __m256i up = _mm256_subs_epu8(v, least), down = _mm256_subs_epu8(least, v);
        const __m256i up_cut = lb_maddubs_s8_cut(up), down_cut = lb_maddubs_s8_cut(down);
        const __m256i up_off = _mm256_sub_epi8(up, up_cut), down_off = _mm256_sub_epi8(down, down_cut);
        const __m256i off = _mm256_or_si256(up_off, down_off);
        _mm256_storeu_si256((__m256i *)(void *)(cut + at), _mm256_sub_epi8(up_cut, down_cut));
        size = _mm256_add_epi64(size, _mm256_sad_epu8(v, least));
        sum = _mm256_add_epi64(sum, _mm256_sad_epu8(v, none));
        if (!_mm256_testz_si256(off, off))
            lb_maddubs_s8_off(head, rest, row, at, most, up_off, down_off);
    }
    head->size += lb_maddubs_s8_total(size);
    head->more[row] = 128 * ((uint32_t)lb_maddubs_s8_total(sum) - (uint32_t)s->staged * (uint32_t)(x_zero + 128));
    if (row == LB_MADDUBS_S8_ROWS - 1)
        lb_maddubs_s8_tile_of(s, i / LB_MADDUBS_S8_ROWS, k, x_zero);
}

/* What is missing in the last tile of some rows. */
static inline void lb_maddubs_s8_fill(const lb_rows *s, ptrdiff_t rows, int32_t k, int32_t x_zero) {
    for (; rows % LB_MADDUBS_S8_ROWS; rows++)
        lb_maddubs_s8_row(s, rows, NULL, k, x_zero);
}

#endif
