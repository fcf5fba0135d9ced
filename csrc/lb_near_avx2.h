/* Products of bytes by vpmaddubsw, exact for all weights and activations, fast where activations are near their zero point.
 *
 * Weights are unsigned (w + 128), activations signed (d = a - zero point). A lane of int16 gets d0 (w0 + 128) + d1 (w1 + 128), which fits
 * where positive d sum up to 128 at most, and negative ones to -128. Four quads of four k are a group: their lanes are added modulo 2^16,
 * and what a row gives to every column alike, 128 * (sum of d), is taken away again. What is left is the sum of d w, which fits where the
 * |d| of a lane sum up to 255 at most. So a row is proved to fit while it is brought into form, whatever the weights are.
 *
 * A row's d are cut so that pairs fit; what was cut off, a few of a hundred, are quads in which the other rows have nothing. Three rows
 * make a tile. Its groups are four neighbouring quads (three, where d are large) where they fit; those of others are put together anew,
 * with what is there from elsewhere. Where all that takes more room than halves would, or too much was cut off, d is multiplied in halves,
 * d = 16 h + l, which always fit.
 *
 * Panels of 16 columns: k padded to 16, quads of four k of eight columns and of the next eight. A quad of a tile: four d of each row, and
 * where its weights are in a panel. A group: quads, then for each row two int16 that are added to its lanes. */
#ifndef LB_NEAR_AVX2_H
#define LB_NEAR_AVX2_H

#include "lb_nibbles_avx2.h"

enum {
    LB_NEAR_PAIR = 128,
    LB_NEAR_LANE = 255,
    LB_NEAR_OPEN = 4,  /* groups that are filled at a time */
    LB_NEAR_FOUR = 24, /* mean of |d| up to which a group has four quads */
    LB_NEAR_MOST = 48, /* and up to which d is not halved */
};

/* What is written to a tile. */
typedef struct {
    uint8_t *front, *back; /* they meet where there was not enough room */
    int32_t used;          /* of open groups: they have quads, but less than they may have */
    struct {
        uint8_t *at;
        int32_t count;
        __m128i sizes, sums; /* of its lanes: of |d|, and of d, negated */
    } open[LB_NEAR_OPEN];
} lb_near_tile;

/* What was cut off the rows of a tile: entry j of row i is number j * LB_NEAR_ROWS + i. */
static inline lb_near_rest *lb_near_rests(const lb_rows *s, ptrdiff_t tile) {
    return (lb_near_rest *)(void *)(s->a + (tile + 1) * s->stride) - LB_NEAR_ROWS * lb_near_rest_most(s->k);
}

LB_INLINE ptrdiff_t lb_near_group(int quads) {
    return 16 * quads + 16;
}

/* Sums of pairs of bytes. */
LB_INLINE __m128i lb_pairs_of(__m128i bytes) {
    return _mm_maddubs_epi16(bytes, _mm_set1_epi8(1));
}

/* Of four dwords of two lanes: the sums of the lanes, in every dword. */
LB_INLINE __m128i lb_lanes(__m128i v) {
    v = _mm_add_epi16(v, _mm_shuffle_epi32(v, 0x4E));
    return _mm_add_epi16(v, _mm_shuffle_epi32(v, 0xB1));
}

/* Four dwords of each row and of another one, as four of dwords of the same number. */
LB_INLINE void lb_by_quads(const __m128i rows[LB_NEAR_ROWS], __m128i other, __m128i quads[4]) {
    const __m128i a = _mm_unpacklo_epi32(rows[0], rows[1]), b = _mm_unpacklo_epi32(rows[2], other);
    const __m128i c = _mm_unpackhi_epi32(rows[0], rows[1]), d = _mm_unpackhi_epi32(rows[2], other);
    quads[0] = _mm_unpacklo_epi64(a, b), quads[1] = _mm_unpackhi_epi64(a, b);
    quads[2] = _mm_unpacklo_epi64(c, d), quads[3] = _mm_unpackhi_epi64(c, d);
}

/* Where the weights of the four quads from k on are. */
LB_INLINE __m128i lb_near_places(int32_t k) {
    return _mm_add_epi32(_mm_set1_epi32(k * LB_PANEL), _mm_setr_epi32(0, 4 * LB_PANEL, 8 * LB_PANEL, 12 * LB_PANEL));
}

LB_INLINE void lb_near_centre(uint8_t *group, const int quads, __m128i sums) {
    _mm_storeu_si128((__m128i *)(void *)(group + 16 * quads), _mm_slli_epi16(sums, 7));
}

/* Room for another full group. */
LB_INLINE uint8_t *lb_near_new(lb_near_tile *t, const int quads) {
    uint8_t *at = t->front;
    t->front += lb_near_group(quads);
    return at;
}

/* Whether there is room for all that is open, and another group. */
LB_INLINE int lb_near_room(const lb_near_tile *t) {
    return t->back - t->front >= (LB_NEAR_OPEN + 1) * lb_near_group(4);
}

/* A quad of an open group. */
LB_INLINE void lb_near_set(lb_near_tile *t, int open, int i, __m128i quad) {
    _mm_storeu_si128((__m128i *)(void *)(t->open[open].at + 16 * i), quad);
}

/* An open group as it is: what it lacks is zero. */
LB_INLINE void lb_near_close(lb_near_tile *t, int open, const int quads) {
    for (int i = t->open[open].count; i < quads; i++)
        lb_near_set(t, open, i, _mm_setzero_si128());
    lb_near_centre(t->open[open].at, quads, t->open[open].sums);
    t->open[open] = t->open[--t->used];
}

/* A quad into the first open group where it fits. */
static inline void lb_near_put(lb_near_tile *t, const int quads, __m128i quad, __m128i sizes, __m128i sums) {
    const __m128i most = _mm_set1_epi16(LB_NEAR_LANE);
    int open = 0, fullest = 0;
    for (; open < t->used; open++) {
        if (!_mm_movemask_epi8(_mm_cmpgt_epi16(_mm_add_epi16(t->open[open].sizes, sizes), most))) {
            lb_near_set(t, open, t->open[open].count, quad);
            t->open[open].sizes = _mm_add_epi16(t->open[open].sizes, sizes);
            t->open[open].sums = _mm_add_epi16(t->open[open].sums, sums);
            if (++t->open[open].count == quads)
                lb_near_close(t, open, quads);
            return;
        }
        fullest = t->open[open].count > t->open[fullest].count ? open : fullest;
    }
    if (open == LB_NEAR_OPEN)
        lb_near_close(t, fullest, quads);
    t->open[t->used].at = lb_near_new(t, quads), t->open[t->used].count = 1;
    t->open[t->used].sizes = sizes, t->open[t->used].sums = sums;
    lb_near_set(t, t->used++, 0, quad);
}

/* Quads that do not fit as they stand, from k on. */
LB_INLINE void lb_near_apart(lb_near_tile *t, const int quads, const __m128i d[LB_NEAR_ROWS], const __m128i size[LB_NEAR_ROWS], int32_t k) {
    const __m128i none = _mm_setzero_si128(), ones = _mm_set1_epi8(1);
    __m128i sum[LB_NEAR_ROWS], by_quad[4], sizes[4], sums[4];
    LB_UNROLL
    for (int i = 0; i < LB_NEAR_ROWS; i++)
        sum[i] = _mm_sub_epi16(none, _mm_maddubs_epi16(ones, d[i]));
    lb_by_quads(d, lb_near_places(k), by_quad);
    lb_by_quads(size, none, sizes);
    lb_by_quads(sum, none, sums);
    for (int i = 0; i < quads; i++)
        if (_mm_movemask_epi8(_mm_cmpeq_epi8(sizes[i], none)) != 0xFFFF)
            lb_near_put(t, quads, by_quad[i], sizes[i], sums[i]);
}

static const _Alignas(16) int32_t lb_near_dword[4][4] = {{-1, 0, 0, 0}, {0, -1, 0, 0}, {0, 0, -1, 0}, {0, 0, 0, -1}};

/* What was cut off a row: a quad of which the others have nothing. */
LB_INLINE void lb_near_put_rest(lb_near_tile *t, const int quads, int row, const lb_near_rest *rest) {
    const __m128i *masks = (const __m128i *)(const void *)lb_near_dword, mine = _mm_load_si128(&masks[row]);
    const __m128i d = _mm_and_si128(_mm_set1_epi32(rest->d), mine);
    const __m128i quad = _mm_or_si128(d, _mm_and_si128(_mm_set1_epi32((int32_t)rest->w), _mm_load_si128(&masks[3])));
    const __m128i sums = _mm_sub_epi16(_mm_setzero_si128(), _mm_maddubs_epi16(_mm_set1_epi8(1), d));
    lb_near_put(t, quads, quad, lb_pairs_of(_mm_abs_epi8(d)), sums);
}

/* Groups of three rows; whether there was enough room. */
LB_INLINE int lb_near_groups(const lb_rows *s, int32_t k, const int quads, uint8_t *out, lb_near_head *head) {
    const lb_near_rest *rest = lb_near_rests(s, head - s->heads);
    lb_near_tile t = {.front = out, .back = (uint8_t *)lb_near_rests(s, head - s->heads), .used = 0};
    int32_t taken[LB_NEAR_ROWS] = {0};
    const __m128i lane = _mm_set1_epi16(LB_NEAR_LANE), ones = _mm_set1_epi8(1);
    const __m128i there = _mm_setr_epi32(-1, -1, -1, quads == 4 ? -1 : 0);
    for (int32_t at = 0; at < k; at += 4 * quads) {
        for (int i = 0; i < LB_NEAR_ROWS; i++)
            for (; taken[i] < head->cut[i] && rest[LB_NEAR_ROWS * taken[i] + i].w < (uint32_t)((at + 4 * quads) * LB_PANEL); taken[i]++) {
                if (!lb_near_room(&t))
                    return 0;
                lb_near_put_rest(&t, quads, i, &rest[LB_NEAR_ROWS * taken[i] + i]);
            }
        if (!lb_near_room(&t))
            return 0;
        __m128i d[LB_NEAR_ROWS], size[LB_NEAR_ROWS], large = _mm_setzero_si128(), by_quad[4], sum[LB_NEAR_ROWS];
        LB_UNROLL
        for (int i = 0; i < LB_NEAR_ROWS; i++) {
            d[i] = _mm_and_si128(_mm_loadu_si128((const __m128i *)(const void *)(s->low + (LB_NEAR_ROWS + i) * s->staged + at)), there);
            size[i] = lb_pairs_of(_mm_abs_epi8(d[i]));
            large = _mm_or_si128(large, _mm_cmpgt_epi16(lb_lanes(size[i]), lane));
        }
        if (_mm_movemask_epi8(large)) {
            lb_near_apart(&t, quads, d, size, at);
            continue;
        }
        uint8_t *group = lb_near_new(&t, quads);
        lb_by_quads(d, lb_near_places(at), by_quad);
        LB_UNROLL
        for (int i = 0; i < quads; i++)
            _mm_storeu_si128((__m128i *)(void *)(group + 16 * i), by_quad[i]);
        LB_UNROLL
        for (int i = 0; i < LB_NEAR_ROWS; i++)
            sum[i] = lb_lanes(_mm_maddubs_epi16(ones, d[i]));
        const __m128i sums = _mm_blend_epi16(_mm_blend_epi16(sum[0], sum[1], 0x0C), sum[2], 0xF0);
        lb_near_centre(group, quads, _mm_sub_epi16(_mm_setzero_si128(), sums));
    }
    while (t.used)
        lb_near_close(&t, t.used - 1, quads);
    head->groups = (int32_t)((t.front - out) / lb_near_group(quads));
    return 1;
}

/* Three rows in halves: groups of the upper ones, then as many of the lower ones, which are given. */
static inline int32_t lb_near_halves(const lb_rows *s, int32_t k, int32_t x_zero, uint8_t *out) {
    const __m256i zero = _mm256_set1_epi16((int16_t)x_zero), low = _mm256_set1_epi16(15);
    const int32_t groups = (int32_t)lb_round_up(k, 16) / 16;
    for (int32_t at = 0; at < k; at += 16, out += lb_near_group(4)) {
        __m128i d[2][LB_NEAR_ROWS], sum[2][LB_NEAR_ROWS];
        for (int i = 0; i < LB_NEAR_ROWS; i++) {
            const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(s->low + i * s->staged + at));
            const __m256i v = _mm256_sub_epi16(_mm256_cvtepi8_epi16(bytes), zero);
            const __m256i both = _mm256_permute4x64_epi64(_mm256_packs_epi16(_mm256_srai_epi16(v, 4), _mm256_and_si256(v, low)), 0xD8);
            d[0][i] = _mm256_castsi256_si128(both), d[1][i] = _mm256_extracti128_si256(both, 1);
            for (int half = 0; half < 2; half++)
                sum[half][i] = _mm_sub_epi16(_mm_setzero_si128(), lb_lanes(_mm_maddubs_epi16(_mm_set1_epi8(1), d[half][i])));
        }
        for (int half = 0; half < 2; half++) {
            uint8_t *group = out + half * groups * lb_near_group(4);
            __m128i by_quad[4];
            lb_by_quads(d[half], lb_near_places(at), by_quad);
            for (int i = 0; i < 4; i++)
                _mm_storeu_si128((__m128i *)(void *)(group + 16 * i), by_quad[i]);
            lb_near_centre(group, 4, _mm_blend_epi16(_mm_blend_epi16(sum[half][0], sum[half][1], 0x0C), sum[half][2], 0xF0));
        }
    }
    return groups;
}

/* The tile of the three rows that are there. */
static inline void lb_near_tile_of(const lb_rows *s, ptrdiff_t tile, int32_t k, int32_t x_zero) {
    uint8_t *out = s->a + tile * s->stride;
    lb_near_head *head = &s->heads[tile];
    const int64_t mean = head->size / (LB_NEAR_ROWS * (k ? k : 1));
    int32_t most = 0;
    for (int i = 0; i < LB_NEAR_ROWS; i++)
        most = head->cut[i] > most ? head->cut[i] : most;
    head->quads = mean <= LB_NEAR_FOUR ? 4 : 3;
    if (most <= lb_near_rest_most(k) && mean <= LB_NEAR_MOST &&
        (mean <= LB_NEAR_FOUR ? lb_near_groups(s, k, 4, out, head) : lb_near_groups(s, k, 3, out, head)))
        return;
    memset(head, 0, sizeof *head);
    head->quads = 4;
    head->halves = head->groups = lb_near_halves(s, k, x_zero, out);
}

/* As much of bytes that pairs of them sum up to 128 at most, and one is 127 at most. */
LB_INLINE __m256i lb_near_cut(__m256i v) {
    const __m256i other = _mm256_or_si256(_mm256_slli_epi16(v, 8), _mm256_srli_epi16(v, 8)), half = _mm256_set1_epi8(LB_NEAR_PAIR / 2);
    const __m256i most = _mm256_max_epu8(_mm256_subs_epu8(_mm256_set1_epi8(-LB_NEAR_PAIR), other), half);
    return _mm256_min_epu8(v, _mm256_min_epu8(most, _mm256_set1_epi8(127)));
}

/* What was cut off a row's d from k on, upwards and downwards: quads of their own, as many as it takes. */
static inline void lb_near_off(lb_near_head *head, lb_near_rest *rest, int row, int32_t k, int32_t most, __m256i up, __m256i down) {
    const __m256i none = _mm256_setzero_si256();
    do {
        const __m256i up_now = lb_near_cut(up), down_now = lb_near_cut(down), d = _mm256_sub_epi8(up_now, down_now);
        _Alignas(32) int32_t quads[8];
        _mm256_store_si256((__m256i *)(void *)quads, d);
        up = _mm256_sub_epi8(up, up_now), down = _mm256_sub_epi8(down, down_now);
        uint32_t there = ~(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(d, none))) & 255u;
        for (; there; there &= there - 1) {
            const int quad = __builtin_ctz(there);
            if (head->cut[row]++ < most)
                rest[LB_NEAR_ROWS * (head->cut[row] - 1) + row] = (lb_near_rest){(uint32_t)((k + 4 * quad) * LB_PANEL), quads[quad]};
        }
    } while (!_mm256_testz_si256(up, up) || !_mm256_testz_si256(down, down));
}

/* Row i of s; rows come one after the other. Without `a` there is no such row. */
static inline void lb_near_row(const lb_rows *s, ptrdiff_t i, const int8_t *a, int32_t k, int32_t x_zero) {
    const int row = (int)(i % LB_NEAR_ROWS);
    const int32_t most = lb_near_rest_most(k);
    uint8_t *as_is = s->low + row * s->staged, *cut = as_is + LB_NEAR_ROWS * s->staged;
    lb_near_head *head = &s->heads[i / LB_NEAR_ROWS];
    lb_near_rest *rest = lb_near_rests(s, i / LB_NEAR_ROWS);
    if (row == 0)
        memset(head, 0, sizeof *head);
    if (a)
        memcpy(as_is, a, (size_t)k);
    memset(as_is + (a ? k : 0), x_zero, (size_t)(s->staged - (a ? k : 0)));
    const __m256i flip = _mm256_set1_epi8(-128), least = _mm256_xor_si256(_mm256_set1_epi8((char)x_zero), flip);
    __m256i size = _mm256_setzero_si256();
    for (int32_t at = 0; at < s->staged; at += 32) {
        const __m256i v = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(const void *)(as_is + at)), flip);
        const __m256i up = _mm256_subs_epu8(v, least), down = _mm256_subs_epu8(least, v);
        const __m256i up_cut = lb_near_cut(up), down_cut = lb_near_cut(down);
        const __m256i up_off = _mm256_sub_epi8(up, up_cut), down_off = _mm256_sub_epi8(down, down_cut);
        const __m256i off = _mm256_or_si256(up_off, down_off);
        _mm256_storeu_si256((__m256i *)(void *)(cut + at), _mm256_sub_epi8(up_cut, down_cut));
        size = _mm256_add_epi64(size, _mm256_sad_epu8(v, least));
        if (!_mm256_testz_si256(off, off))
            lb_near_off(head, rest, row, at, most, up_off, down_off);
    }
    const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(size), _mm256_extracti128_si256(size, 1));
    head->size += _mm_cvtsi128_si64(two) + _mm_extract_epi64(two, 1);
    if (row == LB_NEAR_ROWS - 1)
        lb_near_tile_of(s, i / LB_NEAR_ROWS, k, x_zero);
}

/* What is missing in the last tile of some rows. */
static inline void lb_near_fill(const lb_rows *s, ptrdiff_t rows, int32_t k, int32_t x_zero) {
    for (; rows % LB_NEAR_ROWS; rows++)
        lb_near_row(s, rows, NULL, k, x_zero);
}

/* ---- products with 16 columns ---- */

static const _Alignas(32) int16_t lb_ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

/* Parts of the loops: the first quad of a row, another one, the end of a group; the same for all rows. */
#define LB_NEAR_FIRST(at, s0, s1)                                                                                                          \
    "vpbroadcastd " at "(%[a]), %[x]\n\t"                                                                                                  \
    "vpmaddubsw %[x], %[w0], " s0 "\n\t"                                                                                                   \
    "vpmaddubsw %[x], %[w1], " s1 "\n\t"
#define LB_NEAR_NEXT(at, s0, s1)                                                                                                           \
    "vpbroadcastd " at "(%[a]), %[x]\n\t"                                                                                                  \
    "vpmaddubsw %[x], %[w0], %[y]\n\t"                                                                                                     \
    "vpmaddubsw %[x], %[w1], %[x]\n\t"                                                                                                     \
    "vpaddw %[y], " s0 ", " s0 "\n\t"                                                                                                      \
    "vpaddw %[x], " s1 ", " s1 "\n\t"
#define LB_NEAR_END(at, s0, s1, c0, c1)                                                                                                    \
    "vpbroadcastd " at "(%[a]), %[x]\n\t"                                                                                                  \
    "vpaddw %[x], " s0 ", " s0 "\n\t"                                                                                                      \
    "vpaddw %[x], " s1 ", " s1 "\n\t"                                                                                                      \
    "vpmaddwd %[w1], " s0 ", " s0 "\n\t"                                                                                                   \
    "vpmaddwd %[w1], " s1 ", " s1 "\n\t"                                                                                                   \
    "vpaddd " s0 ", " c0 ", " c0 "\n\t"                                                                                                    \
    "vpaddd " s1 ", " c1 ", " c1 "\n\t"
#define LB_NEAR_LOAD(at)                                                                                                                   \
    "movl " at "(%[a]), %k[i]\n\t"                                                                                                         \
    "vmovdqa (%[w],%[i]), %[w0]\n\t"                                                                                                       \
    "vmovdqa 32(%[w],%[i]), %[w1]\n\t"
#define LB_NEAR_QUAD(part, r0, r1, r2, at)                                                                                                 \
    LB_NEAR_LOAD(at) part(r0, "%[s00]", "%[s01]") part(r1, "%[s10]", "%[s11]") part(r2, "%[s20]", "%[s21]")
#define LB_NEAR_QUADS3                                                                                                                     \
    LB_NEAR_QUAD(LB_NEAR_FIRST, "0", "4", "8", "12")                                                                                       \
    LB_NEAR_QUAD(LB_NEAR_NEXT, "16", "20", "24", "28") LB_NEAR_QUAD(LB_NEAR_NEXT, "32", "36", "40", "44")
#define LB_NEAR_QUADS4 LB_NEAR_QUADS3 LB_NEAR_QUAD(LB_NEAR_NEXT, "48", "52", "56", "60")
#define LB_NEAR_ENDS(r0, r1, r2)                                                                                                           \
    "vmovdqa %[ones], %[w1]\n\t" LB_NEAR_END(r0, "%[s00]", "%[s01]", "%[c00]", "%[c01]")                                                   \
        LB_NEAR_END(r1, "%[s10]", "%[s11]", "%[c10]", "%[c11]") LB_NEAR_END(r2, "%[s20]", "%[s21]", "%[c20]", "%[c21]")

/* c += the products of groups from a to `end`. In assembly, because it takes all 16 registers: 12 sums, 2 of weights, 2 for products. */
#define LB_NEAR_LOOP(group, step)                                                                                                          \
    __asm__ volatile("1:\n\t" group "add $" step ", %[a]\n\t"                                                                              \
                     "cmp %[end], %[a]\n\t"                                                                                                \
                     "jb 1b"                                                                                                               \
                     : [a] "+&r"(a), [i] "=&r"(i), [c00] "+x"(c[0][0]), [c01] "+x"(c[0][1]), [c10] "+x"(c[1][0]), [c11] "+x"(c[1][1]),     \
                       [c20] "+x"(c[2][0]), [c21] "+x"(c[2][1]), [s00] "=&x"(s00), [s01] "=&x"(s01), [s10] "=&x"(s10), [s11] "=&x"(s11),   \
                       [s20] "=&x"(s20), [s21] "=&x"(s21), [w0] "=&x"(w0), [w1] "=&x"(w1), [x] "=&x"(x), [y] "=&x"(y)                      \
                     : [w] "r"(w), [end] "r"(end), [ones] "m"(lb_ones)                                                                     \
                     : "memory", "cc")

static inline void lb_near_steps(const uint8_t *a, int32_t groups, int quads, const uint8_t *w, __m256i c[LB_NEAR_ROWS][2]) {
    __m256i s00, s01, s10, s11, s20, s21, w0, w1, x, y;
    uint64_t i;
    const uint8_t *end = a + groups * lb_near_group(quads);
    if (quads == 4)
        LB_NEAR_LOOP(LB_NEAR_QUADS4 LB_NEAR_ENDS("64", "68", "72"), "80");
    else
        LB_NEAR_LOOP(LB_NEAR_QUADS3 LB_NEAR_ENDS("48", "52", "56"), "64");
}

/* c = the products of a tile. */
static inline void lb_near_products(const lb_rows *s, ptrdiff_t tile, const uint8_t *w, __m256i c[LB_NEAR_ROWS][2]) {
    const lb_near_head *head = &s->heads[tile];
    const uint8_t *a = s->a + tile * s->stride;
    LB_UNROLL
    for (int i = 0; i < LB_NEAR_ROWS; i++)
        c[i][0] = c[i][1] = _mm256_setzero_si256();
    if (head->halves) {
        lb_near_steps(a, head->halves, 4, w, c);
        a += head->halves * lb_near_group(4);
        for (int i = 0; i < LB_NEAR_ROWS; i++)
            c[i][0] = _mm256_slli_epi32(c[i][0], 4), c[i][1] = _mm256_slli_epi32(c[i][1], 4);
    }
    if (head->groups)
        lb_near_steps(a, head->groups, head->quads, w, c);
}

#endif
