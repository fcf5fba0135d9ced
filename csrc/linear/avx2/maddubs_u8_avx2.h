/* Products of bytes by vpmaddubsw, exact for all weights: the sums that it takes in int16 are kept within int16 by the activations.
 *
 * A quad is four k of 16 columns: a broadcast of four activations (unsigned) meets their weights, and each lane of int16 gets a0 w0 + a1
 * w1, within 128 (a0 + a1). So quads whose activations of each lane sum up to 255 at most make a group, which is added in int16 before one
 * vpmaddwd. After a relu most activations are small. The load of a quad's lane is the largest a0 + a1 of any row of a block; for each
 * block the quads are put into groups by their loads, and one that is 0 in all rows is left out. A lane above 255 is cut: what is too much
 * stands once more after the row, as a quad of its own. Where nearly all are large, the block is multiplied in halves of four bits, as in
 * nibbles_avx2.h, whose layout the weights have. */
#ifndef LB_MADDUBS_U8_AVX2_H
#define LB_MADDUBS_U8_AVX2_H

#include "linear/avx2/nibbles_avx2.h"
#include "base/ones_avx2.h"

enum {
    LB_MADDUBS_U8_ROWS = 3,
    LB_MADDUBS_U8_HALF_ROWS = 6,                       /* of eight columns */
    LB_MADDUBS_U8_ITEMS = 2 * LB_MADDUBS_U8_CHUNK / 4, /* of a chunk, at most */
    LB_MADDUBS_U8_SINGLE = 3,                          /* quads without a group that do not get a loop of their own, at most */
    LB_MADDUBS_U8_LOADS = 64,                          /* kinds of loads that are told apart */
    LB_MADDUBS_U8_TRIES = 8, /* quads that are looked at for one that fits beside another, so that grouping stays linear in k */
    LB_MADDUBS_U8_FEW = 64,  /* quads that are looked at all at once instead: those of a row of half as many, and what is cut off them */
};

/* ---- rows ---- */

/* Row i of s, of which those before it are there: plus 128, zeros up to LB_NIBBLE_STEP; and the loads of all rows so far. */
static inline void lb_maddubs_u8_row(const lb_rows *s, ptrdiff_t i, const int8_t *x, int32_t k) {
    const __m256i flip = _mm256_set1_epi8(-128), ones = _mm256_set1_epi8(1);
    uint8_t *out = s->a + i * s->stride;
    for (int32_t at = 0; at < k; at += LB_NIBBLE_STEP) {
        __m256i v = flip, *load = (__m256i *)(void *)(s->loads + at / 2);
        if (k - at == LB_NIBBLE_STEP / 2)
            v = _mm256_inserti128_si256(flip, _mm_loadu_si128((const __m128i *)(const void *)(x + at)), 0);
        else if (k - at < LB_NIBBLE_STEP)
            memcpy(&v, x + at, (size_t)(k - at));
        else
            v = _mm256_loadu_si256((const __m256i *)(const void *)(x + at));
        v = _mm256_xor_si256(v, flip);
        const __m256i sums = _mm256_maddubs_epi16(v, ones);
        _mm256_store_si256((__m256i *)(void *)(out + at), v);
        _mm256_store_si256(load, i ? _mm256_max_epi16(_mm256_load_si256(load), sums) : sums);
    }
    memset(out + lb_round_up(k, LB_NIBBLE_STEP), 0, 4); /* a quad that adds nothing */
}

/* What is above 255 in a lane of a quad, taken away from it and put at `to`. Without a branch: what rows have there cannot be foreseen. */
static inline void lb_maddubs_u8_cut(uint8_t *quad, uint8_t *to) {
    int32_t bytes;
    memcpy(&bytes, quad, 4);
    const __m128i v = _mm_cvtsi32_si128(bytes), most = _mm_set1_epi16(255), even = _mm_and_si128(v, most), odd = _mm_srli_epi16(v, 8);
    const __m128i excess = _mm_subs_epu16(_mm_add_epi16(even, odd), most), first = _mm_min_epi16(excess, even);
    const __m128i rest = _mm_or_si128(first, _mm_slli_epi16(_mm_sub_epi16(excess, first), 8));
    bytes = _mm_cvtsi128_si32(_mm_sub_epi8(v, rest)); /* no byte is less than what is taken from it */
    memcpy(quad, &bytes, 4);
    bytes = _mm_cvtsi128_si32(rest);
    memcpy(to, &bytes, 4);
}

/* Whether halves are faster: they take as long as a quad and one and a half groups, for each quad. A multiple of 8 quads. */
static inline int lb_maddubs_u8_is_heavy(const lb_rows *s, ptrdiff_t quads) {
    const __m256i low = _mm256_set1_epi32(0xFFFF), most = _mm256_set1_epi32(255);
    __m256i all = _mm256_setzero_si256(), cut = all;
    for (ptrdiff_t q = 0; q < quads; q += 8) {
        const __m256i v = _mm256_load_si256((const __m256i *)(const void *)(s->loads + 2 * q));
        const __m256i larger = _mm256_max_epi32(_mm256_and_si256(v, low), _mm256_srli_epi32(v, 16));
        all = _mm256_add_epi32(all, larger);
        cut = _mm256_sub_epi32(cut, _mm256_cmpgt_epi32(larger, most));
    }
    int32_t sums[2][8];
    _mm256_storeu_si256((__m256i *)(void *)sums[0], all);
    _mm256_storeu_si256((__m256i *)(void *)sums[1], cut);
    int64_t all64 = 0, cut64 = 0;
    for (int i = 0; i < 8; i++)
        all64 += sums[0][i], cut64 += sums[1][i];
    return 2 * (quads + cut64) * 255 + 2 * all64 > 5 * 255 * quads;
}

/* Quads of a chunk that have no group yet, by the larger load of their lanes. */
typedef struct {
    uint64_t there;                      /* bit i: some have one of 4 i ... 4 i + 3; of few: quad i has no group */
    uint16_t next[LB_MADDUBS_U8_LOADS];  /* after the last of them */
    uint16_t count[LB_MADDUBS_U8_LOADS]; /* how many there are */
    uint32_t load[LB_MADDUBS_U8_ITEMS];  /* of both lanes: the second in the upper 16 bits */
    lb_maddubs_u8_item item[LB_MADDUBS_U8_ITEMS];
} lb_maddubs_u8_left;

static inline int lb_maddubs_u8_is_few(ptrdiff_t depth) {
    return depth / 4 <= LB_MADDUBS_U8_FEW / 2;
}

static inline uint32_t lb_maddubs_u8_most(uint32_t load) {
    return (load & 0xFFFF) > load >> 16 ? load & 0xFFFF : load >> 16;
}

static inline uint32_t lb_maddubs_u8_least(uint32_t load) {
    return (load & 0xFFFF) < load >> 16 ? load & 0xFFFF : load >> 16;
}

/* All quads of k from `first` on, up to a chunk; those that are too much are cut, and *extra quads stand after the rows then. Gives how
 * many there are. */
LB_INLINE uint32_t lb_maddubs_u8_list(const lb_rows *s, ptrdiff_t rows, ptrdiff_t k, ptrdiff_t first, ptrdiff_t *extra, uint32_t *load,
                                      lb_maddubs_u8_item *item) {
    uint32_t count = 0;
    for (ptrdiff_t at = first; at < k && at < first + LB_MADDUBS_U8_CHUNK; at += 4) {
        uint32_t both;
        memcpy(&both, s->loads + at / 2, 4);
        if (both & 0xFF00FF00) {
            const uint32_t a = both & 0xFFFF, b = both >> 16;
            const ptrdiff_t to = k + 4 * ++*extra;
            for (ptrdiff_t i = 0; i < rows; i++)
                lb_maddubs_u8_cut(s->a + i * s->stride + at, s->a + i * s->stride + to);
            load[count] = (a > 255 ? a - 255 : 0) | (b > 255 ? b - 255 : 0) << 16;
            item[count++] = (lb_maddubs_u8_item){(uint32_t)to, (uint32_t)at * LB_PANEL};
            both = (a > 255 ? 255 : a) | (b > 255 ? 255 : b) << 16;
        }
        load[count] = both;
        item[count] = (lb_maddubs_u8_item){(uint32_t)at, (uint32_t)at * LB_PANEL};
        count += both != 0;
    }
    return count;
}

static inline void lb_maddubs_u8_collect(const lb_rows *s, ptrdiff_t rows, ptrdiff_t k, ptrdiff_t first, ptrdiff_t *extra,
                                         lb_maddubs_u8_left *left) {
    uint32_t load[LB_MADDUBS_U8_ITEMS + 1];
    lb_maddubs_u8_item item[LB_MADDUBS_U8_ITEMS + 1];
    const uint32_t count = lb_maddubs_u8_list(s, rows, k, first, extra, load, item);
    memset(left->count, 0, sizeof left->count);
    for (uint32_t i = 0; i < count; i++)
        left->count[lb_maddubs_u8_most(load[i]) / 4]++;
    left->there = 0;
    for (uint32_t i = 0, at = 0; i < LB_MADDUBS_U8_LOADS; at += left->count[i++]) {
        left->next[i] = (uint16_t)at;
        left->there |= (uint64_t)(left->count[i] > 0) << i;
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t to = left->next[lb_maddubs_u8_most(load[i]) / 4]++;
        left->load[to] = load[i], left->item[to] = item[i];
    }
}

/* The same of few quads, sorted: the largest is the first. */
static inline void lb_maddubs_u8_collect_few(const lb_rows *s, ptrdiff_t rows, ptrdiff_t k, ptrdiff_t *extra, lb_maddubs_u8_left *left) {
    uint32_t load[LB_MADDUBS_U8_FEW + 1];
    lb_maddubs_u8_item item[LB_MADDUBS_U8_FEW + 1];
    _Alignas(32) int16_t key[LB_MADDUBS_U8_FEW];
    const uint32_t count = lb_maddubs_u8_list(s, rows, k, 0, extra, load, item);
    memset(key, -1, sizeof key);
    for (uint32_t i = 0; i < count; i++)
        key[i] = (int16_t)(lb_maddubs_u8_most(load[i]) << 6 | i);
    for (uint32_t i = 0; i < count; i++) {
        const __m256i own = _mm256_set1_epi16(key[i]);
        __m256i larger = _mm256_setzero_si256();
        for (uint32_t j = 0; j < count; j += 16)
            larger = _mm256_sub_epi16(larger, _mm256_cmpgt_epi16(_mm256_load_si256((const __m256i *)(const void *)(key + j)), own));
        const __m256i bytes = _mm256_sad_epu8(larger, _mm256_setzero_si256());
        const __m128i sum = _mm_add_epi64(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
        const uint32_t to = (uint32_t)(_mm_cvtsi128_si32(sum) + _mm_extract_epi16(sum, 4));
        left->load[to] = load[i], left->item[to] = item[i];
    }
    for (uint32_t i = count; i % 8; i++)
        left->load[i] = 0;
    left->there = count < 64 ? ((uint64_t)1 << count) - 1 : ~(uint64_t)0;
}

/* The last quad of a load; it is no more. */
LB_INLINE uint32_t lb_maddubs_u8_take(lb_maddubs_u8_left *left, int load) {
    left->there &= ~((uint64_t)(left->count[load] == 1) << load);
    left->count[load]--;
    return --left->next[load];
}

/* The load of the largest quad that fits beside `load` lane by lane, if it is found soon; else the largest that is sure to fit, or -1. */
LB_INLINE int lb_maddubs_u8_fitting(const lb_maddubs_u8_left *left, uint32_t load) {
    const int32_t room = 252 - (int32_t)lb_maddubs_u8_most(load);
    const uint64_t sure = room < 0 ? 0 : left->there & ~(uint64_t)0 >> (63 - room / 4);
    uint64_t maybe = (left->there & ~(uint64_t)0 >> (63 - (255 - lb_maddubs_u8_least(load)) / 4)) ^ sure;
    for (int tries = LB_MADDUBS_U8_TRIES; maybe && tries; tries--) {
        const int i = 63 - __builtin_clzll(maybe);
        if (!((load + left->load[left->next[i] - 1]) & 0xFF00FF00))
            return i;
        maybe ^= (uint64_t)1 << i;
    }
    return sure ? 63 - __builtin_clzll(sure) : -1;
}

/* Which of few quads fit beside `load`. */
LB_INLINE uint64_t lb_maddubs_u8_fitting_few(const lb_maddubs_u8_left *left, uint32_t load) {
    const __m256i own = _mm256_set1_epi32((int32_t)load), over = _mm256_set1_epi32((int32_t)0xFF00FF00), none = _mm256_setzero_si256();
    uint64_t fits = 0;
    for (int i = 0; i < LB_MADDUBS_U8_FEW && left->there >> i; i += 8) {
        const __m256i sum = _mm256_add_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(left->load + i)), own);
        const __m256i fit = _mm256_cmpeq_epi32(_mm256_and_si256(sum, over), none);
        fits |= (uint64_t)(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(fit)) << i;
    }
    return fits & left->there;
}

/* The largest quad that is left; it is no more. */
LB_INLINE uint32_t lb_maddubs_u8_largest(const int few, lb_maddubs_u8_left *left) {
    if (!few)
        return lb_maddubs_u8_take(left, 63 - __builtin_clzll(left->there));
    const uint32_t i = (uint32_t)__builtin_ctzll(left->there);
    left->there &= left->there - 1;
    return i;
}

/* One that fits beside `load`, or -1; it is no more. */
LB_INLINE int32_t lb_maddubs_u8_beside(const int few, lb_maddubs_u8_left *left, uint32_t load) {
    if (!few) {
        const int next = lb_maddubs_u8_fitting(left, load);
        return next < 0 ? -1 : (int32_t)lb_maddubs_u8_take(left, next);
    }
    const uint64_t fits = lb_maddubs_u8_fitting_few(left, load);
    left->there ^= fits & -fits;
    return fits ? __builtin_ctzll(fits) : -1;
}

/* The groups of one chunk: each begins with the largest quad that is left, and takes the largest that fit. They are of few sizes, because
 * every end of a loop that the processor does not foresee costs as much as several quads: a few quads that are alone are joined by zeros,
 * which every row has at `zero`. */
LB_INLINE void lb_maddubs_u8_group(const int few, lb_maddubs_u8_left *left, uint32_t zero, lb_maddubs_u8_chunk *chunk,
                                   lb_maddubs_u8_item *out) {
    lb_maddubs_u8_item twos[LB_MADDUBS_U8_ITEMS + LB_MADDUBS_U8_SINGLE], ones[LB_MADDUBS_U8_ITEMS], *start = out;
    uint32_t two = 0, one = 0;
    while (left->there) {
        const uint32_t a = lb_maddubs_u8_largest(few, left);
        const int32_t b = lb_maddubs_u8_beside(few, left, left->load[a]);
        if (b < 0) {
            ones[one++] = left->item[a];
            continue;
        }
        const int32_t c = lb_maddubs_u8_beside(few, left, left->load[a] + left->load[b]);
        if (c < 0) {
            twos[two++] = left->item[a], twos[two++] = left->item[b];
            continue;
        }
        out[0] = left->item[a], out[1] = left->item[b], out[2] = left->item[c];
        out += 3;
    }
    if (one <= LB_MADDUBS_U8_SINGLE && !few)
        for (; one; two += 2)
            twos[two] = ones[--one], twos[two + 1] = (lb_maddubs_u8_item){zero, twos[two].w};
    memcpy(out, twos, two * sizeof *out);
    memcpy(out + two, ones, one * sizeof *out);
    chunk->threes = (uint32_t)(out - start) / 3, chunk->twos = two / 2, chunk->ones = one;
}

/* When all rows of a block are there. */
static inline void lb_maddubs_u8_schedule(const lb_rows *s, ptrdiff_t rows, int32_t k) {
    const ptrdiff_t depth = lb_round_up(k, LB_NIBBLE_STEP);
    s->chunks->heavy = lb_maddubs_u8_is_heavy(s, depth / 4);
    if (s->chunks->heavy) {
        const __m256i mask = _mm256_set1_epi8(15);
        for (ptrdiff_t i = 0; i < rows; i++)
            for (ptrdiff_t at = 0; at < depth; at += LB_NIBBLE_STEP) {
                __m256i *high = (__m256i *)(void *)(s->a + i * s->stride + at), *low = (__m256i *)(void *)(s->low + i * s->stride + at);
                const __m256i v = _mm256_load_si256(high);
                _mm256_store_si256(high, _mm256_and_si256(_mm256_srli_epi16(v, 4), mask));
                _mm256_store_si256(low, _mm256_and_si256(v, mask));
            }
        return;
    }
    lb_maddubs_u8_left left;
    ptrdiff_t extra = 0, c = 0;
    uint32_t used = 0;
    if (lb_maddubs_u8_is_few(depth)) {
        lb_maddubs_u8_collect_few(s, rows, depth, &extra, &left);
        s->chunks->first = 0;
        lb_maddubs_u8_group(1, &left, (uint32_t)depth, s->chunks, s->items);
        return;
    }
    for (ptrdiff_t first = 0; first < depth; first += LB_MADDUBS_U8_CHUNK, c++) {
        lb_maddubs_u8_collect(s, rows, depth, first, &extra, &left);
        s->chunks[c].first = used;
        lb_maddubs_u8_group(0, &left, (uint32_t)depth, &s->chunks[c], s->items + used);
        used += 3 * s->chunks[c].threes + 2 * s->chunks[c].twos + s->chunks[c].ones;
    }
}

/* ---- tiles of 16 columns, or of the first eight of them ---- */

/* In assembly for the sake of registers: with 12 sums, and two of weights, two are left. Ones are read where they are needed. */
LB_INLINE void lb_maddubs_u8_first(__m256i s[2], const uint8_t *a, __m256i w0, __m256i w1, const int halves) {
    __m256i x;
    if (halves == 2)
        __asm__("vpbroadcastd %[a], %[x]\n\t"
                "vpmaddubsw %[w0], %[x], %[s0]\n\t"
                "vpmaddubsw %[w1], %[x], %[s1]"
                : [x] "=&x"(x), [s0] "=&x"(s[0]), [s1] "=x"(s[1])
                : [a] "m"(*(const lb_dword *)(const void *)a), [w0] "x"(w0), [w1] "x"(w1));
    else
        __asm__("vpbroadcastd %[a], %[x]\n\t"
                "vpmaddubsw %[w0], %[x], %[s0]"
                : [x] "=&x"(x), [s0] "=x"(s[0])
                : [a] "m"(*(const lb_dword *)(const void *)a), [w0] "x"(w0));
}

LB_INLINE void lb_maddubs_u8_next(__m256i s[2], const uint8_t *a, __m256i w0, __m256i w1, const int halves) {
    __m256i x, t;
    if (halves == 2)
        __asm__("vpbroadcastd %[a], %[x]\n\t"
                "vpmaddubsw %[w0], %[x], %[t]\n\t"
                "vpmaddubsw %[w1], %[x], %[x]\n\t"
                "vpaddw %[t], %[s0], %[s0]\n\t"
                "vpaddw %[x], %[s1], %[s1]"
                : [x] "=&x"(x), [t] "=&x"(t), [s0] "+x"(s[0]), [s1] "+x"(s[1])
                : [a] "m"(*(const lb_dword *)(const void *)a), [w0] "x"(w0), [w1] "x"(w1));
    else
        __asm__("vpbroadcastd %[a], %[x]\n\t"
                "vpmaddubsw %[w0], %[x], %[x]\n\t"
                "vpaddw %[x], %[s0], %[s0]"
                : [x] "=&x"(x), [s0] "+x"(s[0])
                : [a] "m"(*(const lb_dword *)(const void *)a), [w0] "x"(w0));
}

/* One quad of `rows` rows. */
LB_INLINE void lb_maddubs_u8_quad(const int rows, const int halves, const int first, const uint8_t *a, ptrdiff_t stride,
                                  const int8_t *panel, const lb_maddubs_u8_item *item, __m256i s[][2]) {
    const __m256i *w = (const __m256i *)(const void *)(panel + item->w);
    const __m256i w0 = _mm256_load_si256(w), w1 = halves == 2 ? _mm256_load_si256(w + 1) : w0;
    a += item->a;
    LB_UNROLL
    for (int i = 0; i < rows; i++)
        if (first)
            lb_maddubs_u8_first(s[i], a + i * stride, w0, w1, halves);
        else
            lb_maddubs_u8_next(s[i], a + i * stride, w0, w1, halves);
}

LB_INLINE void lb_maddubs_u8_end(const int rows, const int halves, __m256i s[][2], __m256i acc[][2]) {
    LB_UNROLL
    for (int i = 0; i < rows; i++)
        LB_UNROLL
    for (int half = 0; half < halves; half++)
        __asm__("vpmaddwd %[ones], %[s], %[s]\n\t"
                "vpaddd %[s], %[acc], %[acc]"
                : [s] "+x"(s[i][half]), [acc] "+x"(acc[i][half])
                : [ones] "m"(lb_ones));
}

/* acc += the products of `rows` rows with a panel, for the groups of a chunk. */
LB_INLINE void lb_maddubs_u8_tile(const int rows, const int halves, const uint8_t *a, ptrdiff_t stride, const int8_t *panel,
                                  const lb_maddubs_u8_chunk *chunk, const lb_maddubs_u8_item *item, __m256i acc[][2]) {
    __m256i s[LB_MADDUBS_U8_HALF_ROWS][2];
    for (const lb_maddubs_u8_item *end = item + 3 * chunk->threes; item < end; item += 3) {
        lb_maddubs_u8_quad(rows, halves, 1, a, stride, panel, item, s);
        lb_maddubs_u8_quad(rows, halves, 0, a, stride, panel, item + 1, s);
        lb_maddubs_u8_quad(rows, halves, 0, a, stride, panel, item + 2, s);
        lb_maddubs_u8_end(rows, halves, s, acc);
    }
    for (const lb_maddubs_u8_item *end = item + 2 * chunk->twos; item < end; item += 2) {
        lb_maddubs_u8_quad(rows, halves, 1, a, stride, panel, item, s);
        lb_maddubs_u8_quad(rows, halves, 0, a, stride, panel, item + 1, s);
        lb_maddubs_u8_end(rows, halves, s, acc);
    }
    for (const lb_maddubs_u8_item *end = item + chunk->ones; item < end; item++) {
        lb_maddubs_u8_quad(rows, halves, 1, a, stride, panel, item, s);
        lb_maddubs_u8_end(rows, halves, s, acc);
    }
}

/* The same for three rows and 16 columns, which is nearly all there is to do. As one loop of assembly: what the compiler makes of the parts
 * above takes a tenth more instructions, and as many as can be decoded is what bounds it. Sums of int16 are in ymm0 ... ymm5. */
#define LB_MADDUBS_U8_LOAD(at)                                                                                                             \
    "movl " at "+4(%[item]), %k[i]\n\t"                                                                                                    \
    "vmovdqa (%[w],%[i]), %%ymm6\n\t"                                                                                                      \
    "vmovdqa 32(%[w],%[i]), %%ymm7\n\t"                                                                                                    \
    "movl " at "(%[item]), %k[i]\n\t"
#define LB_MADDUBS_U8_FIRST(row, s0, s1)                                                                                                   \
    "vpbroadcastd (" row ",%[i]), %%ymm8\n\t"                                                                                              \
    "vpmaddubsw %%ymm6, %%ymm8, " s0 "\n\t"                                                                                                \
    "vpmaddubsw %%ymm7, %%ymm8, " s1 "\n\t"
#define LB_MADDUBS_U8_NEXT(row, s0, s1)                                                                                                    \
    "vpbroadcastd (" row ",%[i]), %%ymm8\n\t"                                                                                              \
    "vpmaddubsw %%ymm6, %%ymm8, %%ymm9\n\t"                                                                                                \
    "vpmaddubsw %%ymm7, %%ymm8, %%ymm8\n\t"                                                                                                \
    "vpaddw %%ymm9, " s0 ", " s0 "\n\t"                                                                                                    \
    "vpaddw %%ymm8, " s1 ", " s1 "\n\t"
#define LB_MADDUBS_U8_QUAD(part, at)                                                                                                       \
    LB_MADDUBS_U8_LOAD(at)                                                                                                                 \
    part("%[r0]", "%%ymm0", "%%ymm1") part("%[r1]", "%%ymm2", "%%ymm3") part("%[r2]", "%%ymm4", "%%ymm5")
#define LB_MADDUBS_U8_END(s, c)                                                                                                            \
    "vpmaddwd %[ones], " s ", " s "\n\t"                                                                                                   \
    "vpaddd " s ", " c ", " c "\n\t"
#define LB_MADDUBS_U8_ENDS                                                                                                                 \
    LB_MADDUBS_U8_END("%%ymm0", "%[c00]")                                                                                                  \
    LB_MADDUBS_U8_END("%%ymm1", "%[c01]")                                                                                                  \
    LB_MADDUBS_U8_END("%%ymm2", "%[c10]")                                                                                                  \
    LB_MADDUBS_U8_END("%%ymm3", "%[c11]") LB_MADDUBS_U8_END("%%ymm4", "%[c20]") LB_MADDUBS_U8_END("%%ymm5", "%[c21]")

/* c += the products of the groups from item to `end`, of which there is one at least. */
#define LB_MADDUBS_U8_OUT                                                                                                                  \
    [item] "+&r"(item), [i] "=&r"(i), [c00] "+x"(c[0][0]), [c01] "+x"(c[0][1]), [c10] "+x"(c[1][0]), [c11] "+x"(c[1][1]),                  \
        [c20] "+x"(c[2][0]), [c21] "+x"(c[2][1])
#define LB_MADDUBS_U8_IN [w] "r"(panel), [r0] "r"(a), [r1] "r"(a + stride), [r2] "r"(a + 2 * stride), [ones] "m"(lb_ones)
#define LB_MADDUBS_U8_USED "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9"
#define LB_MADDUBS_U8_LOOP(group, step)                                                                                                    \
    __asm__ volatile("1:\n\t" group "add $" step ", %[item]\n\t"                                                                           \
                     "cmp %[end], %[item]\n\t"                                                                                             \
                     "jb 1b"                                                                                                               \
                     : LB_MADDUBS_U8_OUT                                                                                                   \
                     : LB_MADDUBS_U8_IN, [end] "r"(end)                                                                                    \
                     : LB_MADDUBS_U8_USED)
#define LB_MADDUBS_U8_THREE(a, b, c)                                                                                                       \
    LB_MADDUBS_U8_QUAD(LB_MADDUBS_U8_FIRST, a)                                                                                             \
    LB_MADDUBS_U8_QUAD(LB_MADDUBS_U8_NEXT, b) LB_MADDUBS_U8_QUAD(LB_MADDUBS_U8_NEXT, c) LB_MADDUBS_U8_ENDS
#define LB_MADDUBS_U8_TWO(a, b) LB_MADDUBS_U8_QUAD(LB_MADDUBS_U8_FIRST, a) LB_MADDUBS_U8_QUAD(LB_MADDUBS_U8_NEXT, b) LB_MADDUBS_U8_ENDS
#define LB_MADDUBS_U8_ONE(a) LB_MADDUBS_U8_QUAD(LB_MADDUBS_U8_FIRST, a) LB_MADDUBS_U8_ENDS

LB_INLINE void lb_maddubs_u8_tile3(const uint8_t *a, ptrdiff_t stride, const int8_t *panel, const lb_maddubs_u8_chunk *chunk,
                                   const lb_maddubs_u8_item *item, __m256i c[][2]) {
    uint64_t i;
    const lb_maddubs_u8_item *end = item + 3 * chunk->threes;
    if (item < end)
        LB_MADDUBS_U8_LOOP(LB_MADDUBS_U8_THREE("0", "8", "16"), "24");
    end = item + 2 * chunk->twos;
    if (item < end)
        LB_MADDUBS_U8_LOOP(LB_MADDUBS_U8_TWO("0", "8"), "16");
    end = item + chunk->ones;
    if (item < end)
        LB_MADDUBS_U8_LOOP(LB_MADDUBS_U8_ONE("0"), "8");
}

/* The same where groups are few, without loops: their ends, which the processor does not always foresee, would cost a fourth. Groups of
 * each size are done in straight lines by one, two, four, as their number is made of these. */
#define LB_MADDUBS_U8_LINE(groups, step)                                                                                                   \
    __asm__ volatile(groups "add $" step ", %[item]" : LB_MADDUBS_U8_OUT : LB_MADDUBS_U8_IN : LB_MADDUBS_U8_USED)

LB_INLINE void lb_maddubs_u8_few3(const uint8_t *a, ptrdiff_t stride, const int8_t *panel, const lb_maddubs_u8_chunk *chunk,
                                  const lb_maddubs_u8_item *item, __m256i c[][2]) {
    uint64_t i;
    if (chunk->threes & 1)
        LB_MADDUBS_U8_LINE(LB_MADDUBS_U8_THREE("0", "8", "16"), "24");
    if (chunk->threes & 2)
        LB_MADDUBS_U8_LINE(LB_MADDUBS_U8_THREE("0", "8", "16") LB_MADDUBS_U8_THREE("24", "32", "40"), "48");
    for (uint32_t left = chunk->threes / 4; left; left--)
        LB_MADDUBS_U8_LINE(LB_MADDUBS_U8_THREE("0", "8", "16") LB_MADDUBS_U8_THREE("24", "32", "40") LB_MADDUBS_U8_THREE("48", "56", "64")
                               LB_MADDUBS_U8_THREE("72", "80", "88"),
                           "96");
    if (chunk->twos & 1)
        LB_MADDUBS_U8_LINE(LB_MADDUBS_U8_TWO("0", "8"), "16");
    if (chunk->twos & 2)
        LB_MADDUBS_U8_LINE(LB_MADDUBS_U8_TWO("0", "8") LB_MADDUBS_U8_TWO("16", "24"), "32");
    for (uint32_t left = chunk->twos / 4; left; left--)
        LB_MADDUBS_U8_LINE(
            LB_MADDUBS_U8_TWO("0", "8") LB_MADDUBS_U8_TWO("16", "24") LB_MADDUBS_U8_TWO("32", "40") LB_MADDUBS_U8_TWO("48", "56"), "64");
    if (chunk->ones & 1)
        LB_MADDUBS_U8_LINE(LB_MADDUBS_U8_ONE("0"), "8");
    for (uint32_t left = chunk->ones / 2; left; left--)
        LB_MADDUBS_U8_LINE(LB_MADDUBS_U8_ONE("0") LB_MADDUBS_U8_ONE("8"), "16");
}

#endif
