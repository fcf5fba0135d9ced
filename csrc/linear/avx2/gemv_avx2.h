/* One row times panels of bytes by vpmaddubsw, exact for all weights and activations, and fast where these are near their zero point.
 *
 * What maddubs_s8_avx2.h does for three rows together: weights are unsigned (w + 128), activations signed (d = a - zero point). A lane of
 * int16 gets d0 (w0 + 128) + d1 (w1 + 128), which fits where positive d sum up to 128 at most, and negative ones to -128. Quads of four k
 * make a group: their lanes are added modulo 2^16 and freed of 128 * (sum of d); what is left is the sum of d w, which fits where the |d|
 * of a lane sum up to 255 at most.
 *
 * A single row is brought into form at every use, so that takes little: four neighbouring quads are a group, or two and two, as they fit;
 * others are cut into parts that fit, two of which make a group. Where that gives too many groups, d is multiplied in halves,
 * d = 16 h + l, four quads each.
 *
 * `unsigned_x`: after a relu there are no d < 0. Weights then stand as they are and activations are unsigned: a lane gets a0 w0 + a1 w1,
 * within 128 (a0 + a1), so nothing is to be freed of anything, and quads fit where the a of a lane sum up to 255.
 *
 * Weights: k padded to LB_GEMV_STEP; for each quad some vectors of eight columns of four k. What does not exist is any number. */
#ifndef LB_GEMV_AVX2_H
#define LB_GEMV_AVX2_H

#include "base/unroll.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { LB_GEMV_STEP = 16, LB_GEMV_PAIR = 128, LB_GEMV_LANE = 255, LB_GEMV_MOST = 4 };

/* Quads, two or four of them: their d, where their weights are in a panel, and two int16 that are added to the lanes. */
typedef struct {
    int32_t d[4];
    uint32_t place[4];
    int32_t centre, four, unused[2];
} lb_gemv_group;

/* A row: groups in the order of their weights, which then come from far away in one stream. Or in halves: for each group of upper ones one
 * of lower ones, `less` is taken away from the sums. */
typedef struct {
    int32_t groups, halves, most;
    uint32_t less; /* modulo 2^32, as the sums are until it is gone */
    lb_gemv_group group[];
} lb_gemv;

/* As many groups as halves take. */
static inline int32_t lb_gemv_most(int32_t k) {
    return 2 * (int32_t)(((int64_t)k + LB_GEMV_STEP - 1) / LB_GEMV_STEP);
}

static inline ptrdiff_t lb_gemv_bytes(int32_t k) {
    return (ptrdiff_t)sizeof(lb_gemv) + lb_gemv_most(k) * (ptrdiff_t)sizeof(lb_gemv_group);
}

/* A part of a quad that waits for another one. Lanes are two int16: sizes of |d|, and sums of d, negated. */
typedef struct {
    int there;
    int32_t d;
    uint32_t place, size;
    int16_t sum[2];
} lb_gemv_part;

/* Room for another group, or NULL. */
LB_INLINE lb_gemv_group *lb_gemv_new(lb_gemv *row, int four) {
    if (row->groups == row->most)
        return NULL;
    row->group[row->groups].four = four;
    return &row->group[row->groups++];
}

static inline void lb_gemv_two(lb_gemv *row, const lb_gemv_part *a, const lb_gemv_part *b) {
    lb_gemv_group *g = lb_gemv_new(row, 0);
    if (!g)
        return;
    g->d[0] = a->d, g->place[0] = a->place;
    g->d[1] = b->there ? b->d : 0, g->place[1] = b->there ? b->place : a->place;
    int16_t centre[2];
    for (int lane = 0; lane < 2; lane++)
        centre[lane] = (int16_t)(128 * (a->sum[lane] + (b->there ? b->sum[lane] : 0)));
    memcpy(&g->centre, centre, 4);
}

/* As much of bytes that pairs of them sum up to 128 at most, and one is 127 at most. Of unsigned ones: up to 255. */
LB_INLINE __m128i lb_gemv_cut(__m128i v, const int unsigned_x) {
    if (unsigned_x)
        return _mm_min_epu8(v, _mm_set1_epi16((int16_t)0x807F));
    const __m128i other = _mm_or_si128(_mm_slli_epi16(v, 8), _mm_srli_epi16(v, 8)), half = _mm_set1_epi8(LB_GEMV_PAIR / 2);
    const __m128i most = _mm_max_epu8(_mm_subs_epu8(_mm_set1_epi8(-LB_GEMV_PAIR), other), half);
    return _mm_min_epu8(v, _mm_min_epu8(most, _mm_set1_epi8(127)));
}

/* Four quads that do not fit as they stand; gives 0 where there is no room for them. */
static inline int lb_gemv_apart(lb_gemv *row, __m128i up, __m128i down, uint32_t place, uint32_t step, lb_gemv_part *open,
                                const int unsigned_x) {
    const __m128i ones = _mm_set1_epi8(1);
    while (_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_or_si128(up, down), _mm_setzero_si128())) != 0xFFFF) {
        const __m128i above = lb_gemv_cut(up, unsigned_x), below = lb_gemv_cut(down, unsigned_x);
        const __m128i high = _mm_maddubs_epi16(above, ones), low = _mm_maddubs_epi16(below, ones);
        int32_t d[4];
        uint32_t size[4];
        int16_t sum[8];
        _mm_storeu_si128((__m128i *)(void *)d, _mm_sub_epi8(above, below));
        _mm_storeu_si128((__m128i *)(void *)size, _mm_add_epi16(high, low));
        _mm_storeu_si128((__m128i *)(void *)sum, _mm_sub_epi16(low, high));
        for (uint32_t i = 0; i < 4; i++) {
            if (!size[i])
                continue;
            const lb_gemv_part part = {1, d[i], place + i * step, size[i], {sum[2 * i], sum[2 * i + 1]}};
            if (open->there && !((open->size + size[i]) & 0xFF00FF00)) {
                lb_gemv_two(row, open, &part);
                open->there = 0;
                continue;
            }
            if (open->there)
                lb_gemv_two(row, open, &(lb_gemv_part){0});
            *open = part;
        }
        up = _mm_sub_epi8(up, above), down = _mm_sub_epi8(down, below);
        if (row->groups == row->most)
            return 0;
    }
    return 1;
}

/* 16 of the k activations from `at` on, plus 128; those after them at their zero point. */
LB_INLINE __m128i lb_gemv_read(const int8_t *a, int32_t k, int32_t at, __m128i zero) {
    __m128i v = zero;
    if (k - at >= LB_GEMV_STEP)
        v = _mm_loadu_si128((const __m128i *)(const void *)(a + at));
    else
        memcpy(&v, a + at, (size_t)(k - at));
    return _mm_xor_si128(v, _mm_set1_epi8(-128));
}

/* In halves nothing is added to lanes: h is within -16 ... 15 and l within 0 ... 15, so four quads fit as they are. What a row gives to
 * every column alike is taken away in the end. */
static inline void lb_gemv_halves(lb_gemv *row, const int8_t *a, int32_t k, int32_t x_zero, uint32_t step, const int unsigned_x) {
    const __m128i fill = _mm_set1_epi8((char)x_zero), places = _mm_setr_epi32(0, (int)step, 2 * (int)step, 3 * (int)step);
    const __m256i zero = _mm256_set1_epi16((int16_t)(x_zero + 128)), low = _mm256_set1_epi16(15);
    __m256i sum = _mm256_setzero_si256();
    row->groups = 0;
    row->halves = row->most / 2;
    lb_gemv_group *g = row->group;
    for (int32_t at = 0; at < k; at += LB_GEMV_STEP, g += 2) {
        const __m256i v = _mm256_sub_epi16(_mm256_cvtepu8_epi16(lb_gemv_read(a, k, at, fill)), zero);
        const __m256i both = _mm256_permute4x64_epi64(_mm256_packs_epi16(_mm256_srai_epi16(v, 4), _mm256_and_si256(v, low)), 0xD8);
        const __m128i place = _mm_add_epi32(places, _mm_set1_epi32((int)((uint32_t)at / 4 * step)));
        _mm_storeu_si128((__m128i *)(void *)g[0].d, _mm256_castsi256_si128(both));
        _mm_storeu_si128((__m128i *)(void *)g[1].d, _mm256_extracti128_si256(both, 1));
        _mm_storeu_si128((__m128i *)(void *)g->place, place);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(v, _mm256_set1_epi16(1)));
    }
    int32_t lanes[8];
    _mm256_storeu_si256((__m256i *)(void *)lanes, sum);
    row->less = 0;
    for (int i = 0; i < 8; i++)
        row->less += unsigned_x ? 0 : 128 * (uint32_t)lanes[i];
}

/* k activations as groups. From quad to quad there are `step` bytes in a panel. Light ones have the zero point -128. */
LB_INLINE void lb_gemv_row(lb_gemv *row, const int8_t *a, int32_t k, int32_t x_zero, uint32_t step, const int unsigned_x) {
    const __m128i fill = _mm_set1_epi8((char)x_zero), least = _mm_xor_si128(fill, _mm_set1_epi8(-128)), ones = _mm_set1_epi8(1);
    const __m128i pair = _mm_set1_epi16(LB_GEMV_PAIR), lane = _mm_set1_epi16(LB_GEMV_LANE);
    const __m128i places = _mm_setr_epi32(0, (int)step, 2 * (int)step, 3 * (int)step);
    *row = (lb_gemv){.most = lb_gemv_most(k)};
    lb_gemv_part open = {0};
    for (int32_t at = 0; at < k; at += LB_GEMV_STEP) {
        const __m128i v = lb_gemv_read(a, k, at, fill), up = _mm_subs_epu8(v, least), down = _mm_subs_epu8(least, v);
        const __m128i above = _mm_maddubs_epi16(up, ones), below = _mm_maddubs_epi16(down, ones);
        const __m128i sizes = _mm_add_epi16(above, below), sums = _mm_slli_epi16(_mm_sub_epi16(below, above), 7);
        const __m128i wide = unsigned_x ? _mm_setzero_si128() /* up > 127 is no int8 */
                                        : _mm_or_si128(up, _mm_cmpgt_epi16(_mm_max_epi16(above, below), pair));
        const __m128i two = _mm_add_epi16(sizes, _mm_shuffle_epi32(sizes, 0xB1)), four = _mm_add_epi16(two, _mm_shuffle_epi32(two, 0x4E));
        const __m128i centre = _mm_add_epi16(sums, _mm_shuffle_epi32(sums, 0xB1)), d = _mm_sub_epi8(up, down);
        const __m128i place = _mm_add_epi32(places, _mm_set1_epi32((int)((uint32_t)at / 4 * step)));
        if (_mm_movemask_epi8(_mm_or_si128(wide, _mm_cmpgt_epi16(two, lane)))) {
            if (lb_gemv_apart(row, up, down, (uint32_t)at / 4 * step, step, &open, unsigned_x))
                continue;
            lb_gemv_halves(row, a, k, x_zero, step, unsigned_x);
            return;
        }
        if (!_mm_movemask_epi8(_mm_cmpgt_epi16(four, lane))) {
            lb_gemv_group *g = lb_gemv_new(row, 1);
            if (!g) {
                lb_gemv_halves(row, a, k, x_zero, step, unsigned_x);
                return;
            }
            _mm_storeu_si128((__m128i *)(void *)g->d, d);
            _mm_storeu_si128((__m128i *)(void *)g->place, place);
            g->centre = _mm_cvtsi128_si32(_mm_add_epi16(centre, _mm_shuffle_epi32(centre, 0x4E)));
            continue;
        }
        lb_gemv_group *g = lb_gemv_new(row, 0), *h = lb_gemv_new(row, 0);
        if (!g || !h) {
            lb_gemv_halves(row, a, k, x_zero, step, unsigned_x);
            return;
        }
        _mm_storeu_si128((__m128i *)(void *)g->d, d);
        _mm_storeu_si128((__m128i *)(void *)g->place, place);
        g->centre = _mm_cvtsi128_si32(centre);
        _mm_storeu_si128((__m128i *)(void *)h->d, _mm_unpackhi_epi64(d, d));
        _mm_storeu_si128((__m128i *)(void *)h->place, _mm_unpackhi_epi64(place, place));
        h->centre = _mm_extract_epi32(centre, 2);
    }
    if (!open.there)
        return;
    if (row->groups == row->most)
        lb_gemv_halves(row, a, k, x_zero, step, unsigned_x);
    else
        lb_gemv_two(row, &open, &(lb_gemv_part){0});
}

/* Weights times x, and the same added to a sum. In assembly, because compilers join sums of other quads and run out of registers;
 * volatile, because they bring all that asks for later weights together, where it waits. */
LB_INLINE __m256i lb_gemv_first(const __m256i *w, __m256i x, const int unsigned_x) {
    __m256i sum;
    if (unsigned_x)
        return _mm256_maddubs_epi16(x, *w);
    __asm__ volatile("vmovdqa %[w], %[sum]\n\t"
                     "vpmaddubsw %[x], %[sum], %[sum]"
                     : [sum] "=&x"(sum)
                     : [w] "m"(*w), [x] "x"(x));
    return sum;
}

LB_INLINE void lb_gemv_next(__m256i *sum, const __m256i *w, __m256i x, const int unsigned_x) {
    __m256i t;
    if (unsigned_x)
        __asm__ volatile("vpmaddubsw %[w], %[x], %[t]\n\t"
                         "vpaddw %[t], %[sum], %[sum]"
                         : [sum] "+x"(*sum), [t] "=&x"(t)
                         : [w] "m"(*w), [x] "x"(x));
    else
        __asm__ volatile("vmovdqa %[w], %[t]\n\t"
                         "vpmaddubsw %[x], %[t], %[t]\n\t"
                         "vpaddw %[t], %[sum], %[sum]"
                         : [sum] "+x"(*sum), [t] "=&x"(t)
                         : [w] "m"(*w), [x] "x"(x));
}

/* Asks for the line at an address, which may be after the weights: a number, since no pointer may lead there. */
LB_INLINE void lb_gemv_soon(uintptr_t at) {
    _mm_prefetch((const char *)at, _MM_HINT_T0);
}

/* Where weights come from: a panel of so many bytes, `step` from quad to quad, and with `ahead` that many bytes of it, then of `next`, are
 * asked for before their turn. Worth it where they are read once and stand in a cache further away. */
typedef struct {
    const uint8_t *w, *next;
    ptrdiff_t bytes, step;
} lb_gemv_panel;

/* s = the products of quad 0 of a group, or s += those of quad q. The same quad of weights further on begins at `soon`. */
LB_INLINE void lb_gemv_quad(const int vectors, const int unsigned_x, const int ahead, int q, const lb_gemv_group *g, const uint8_t *w,
                            uintptr_t soon, __m256i *s) {
    const __m256i x = _mm256_set1_epi32(g->d[q]), *at = (const __m256i *)(const void *)w;
    LB_UNROLL
    for (int i = 0; i < vectors; i++) {
        if (ahead && (q * vectors + i) % 2 == 0)
            lb_gemv_soon(soon + 32 * (uintptr_t)i);
        if (q)
            lb_gemv_next(&s[i], at + i, x, unsigned_x);
        else
            s[i] = lb_gemv_first(at + i, x, unsigned_x);
    }
}

/* c += the products of groups with a panel of `vectors` vectors. */
LB_INLINE void lb_gemv_steps(const int vectors, const int unsigned_x, const int ahead, const lb_gemv_group *g, int32_t count,
                             const lb_gemv_panel panel, __m256i *c) {
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i sums[LB_GEMV_MOST];
    LB_UNROLL
    for (int i = 0; i < vectors; i++)
        sums[i] = c[i];
    for (const lb_gemv_group *end = g + count; g < end; g++) {
        __m256i s[LB_GEMV_MOST];
        const ptrdiff_t place = (ptrdiff_t)g->place[0] + ahead;
        const uint8_t *w = panel.w + g->place[0];
        const uintptr_t soon =
            (uintptr_t)(place < panel.bytes ? panel.w : panel.next) + (uintptr_t)(place < panel.bytes ? place : place - panel.bytes);
        lb_gemv_quad(vectors, unsigned_x, ahead, 0, g, w, soon, s);
        if (g->four) { /* neighbours */
            LB_UNROLL
            for (int q = 1; q < 4; q++)
                lb_gemv_quad(vectors, unsigned_x, ahead, q, g, w + panel.step * q, soon + (uintptr_t)(panel.step * q), s);
        } else
            lb_gemv_quad(vectors, unsigned_x, ahead, 1, g, panel.w + g->place[1], soon + (uintptr_t)panel.step, s);
        const __m256i centre = _mm256_set1_epi32(g->centre);
        LB_UNROLL
        for (int i = 0; i < vectors; i++)
            sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(unsigned_x ? s[i] : _mm256_add_epi16(s[i], centre), ones));
    }
    LB_UNROLL
    for (int i = 0; i < vectors; i++)
        c[i] = sums[i];
}

/* Weights times both halves. */
LB_INLINE void lb_gemv_both(__m256i sums[2], const __m256i *w, __m256i high, __m256i low, const int unsigned_x) {
    __m256i t, u;
    if (unsigned_x)
        __asm__("vmovdqa %[w], %[t]\n\t"
                "vpmaddubsw %[t], %[high], %[u]\n\t"
                "vpmaddubsw %[t], %[low], %[t]\n\t"
                "vpaddw %[u], %[s0], %[s0]\n\t"
                "vpaddw %[t], %[s1], %[s1]"
                : [s0] "+x"(sums[0]), [s1] "+x"(sums[1]), [t] "=&x"(t), [u] "=&x"(u)
                : [w] "m"(*w), [high] "x"(high), [low] "x"(low));
    else
        __asm__("vmovdqa %[w], %[t]\n\t"
                "vpmaddubsw %[high], %[t], %[u]\n\t"
                "vpmaddubsw %[low], %[t], %[t]\n\t"
                "vpaddw %[u], %[s0], %[s0]\n\t"
                "vpaddw %[t], %[s1], %[s1]"
                : [s0] "+x"(sums[0]), [s1] "+x"(sums[1]), [t] "=&x"(t), [u] "=&x"(u)
                : [w] "m"(*w), [high] "x"(high), [low] "x"(low));
}

/* c = the products of a row in halves. */
LB_INLINE void lb_gemv_half_steps(const int vectors, const int unsigned_x, const lb_gemv *row, const uint8_t *w, __m256i *c) {
    const __m256i ones = _mm256_set1_epi16(1), sixteens = _mm256_set1_epi16(16);
    const lb_gemv_group *g = row->group;
    LB_UNROLL
    for (int i = 0; i < vectors; i++)
        c[i] = _mm256_set1_epi32((int32_t)(0 - row->less));
    for (const lb_gemv_group *end = g + 2 * row->halves; g < end; g += 2) {
        __m256i s[LB_GEMV_MOST][2];
        LB_UNROLL
        for (int i = 0; i < vectors; i++)
            s[i][0] = s[i][1] = _mm256_setzero_si256();
        LB_UNROLL
        for (int q = 0; q < 4; q++) {
            const __m256i high = _mm256_set1_epi32(g[0].d[q]), low = _mm256_set1_epi32(g[1].d[q]);
            const __m256i *at = (const __m256i *)(const void *)(w + g->place[q]);
            LB_UNROLL
            for (int i = 0; i < vectors; i++)
                lb_gemv_both(s[i], at + i, high, low, unsigned_x);
        }
        LB_UNROLL
        for (int i = 0; i < vectors; i++)
            c[i] = _mm256_add_epi32(c[i], _mm256_add_epi32(_mm256_madd_epi16(s[i][0], sixteens), _mm256_madd_epi16(s[i][1], ones)));
    }
}

/* c = the products of a row with a panel of `vectors` vectors. */
LB_INLINE void lb_gemv_on_the_way(const int vectors, const int unsigned_x, const int ahead, const lb_gemv *row, const lb_gemv_panel panel,
                                  __m256i *c) {
    if (row->halves) {
        lb_gemv_half_steps(vectors, unsigned_x, row, panel.w, c);
        return;
    }
    LB_UNROLL
    for (int i = 0; i < vectors; i++)
        c[i] = _mm256_setzero_si256();
    lb_gemv_steps(vectors, unsigned_x, ahead, row->group, row->groups, panel, c);
}

LB_INLINE void lb_gemv_products(const int vectors, const int unsigned_x, const lb_gemv *row, const uint8_t *w, ptrdiff_t step, __m256i *c) {
    lb_gemv_on_the_way(vectors, unsigned_x, 0, row, (lb_gemv_panel){w, w, 0, step}, c);
}

#endif
