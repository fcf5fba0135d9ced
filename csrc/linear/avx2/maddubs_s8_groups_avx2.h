/* Quads of a tile of maddubs_s8_avx2.h in groups whose lanes need nothing added: in each the positive d of a row sum up to 128 at most, and
 * the negative ones to -128, so that the lane, a sum of d (w + 128), and every part of it is within 255 * 128 whatever the weights are.
 *
 * Quads come one after the other and go into the first of eight open groups that has room for all of their sums; where none has, one of
 * them in turn is closed as it is. Nothing of that can be foreseen by the processor, so there is no branch: what may be closed is written
 * to where it is overwritten if that was not meant. */
#ifndef LB_MADDUBS_S8_GROUPS_AVX2_H
#define LB_MADDUBS_S8_GROUPS_AVX2_H

#include "linear/avx2/maddubs_s8_loops_avx2.h"

enum { LB_MADDUBS_S8_OPEN = 8, LB_MADDUBS_S8_MOST_QUADS = 4, LB_MADDUBS_S8_SUM = 128, LB_MADDUBS_S8_SUMS = 12 };

/* Bytes for eight open groups: all ones for group i and zeros for others; zeros alone from 8 on. And the same of LB_MADDUBS_S8_SUM. */
#define LB_MADDUBS_S8_BYTE(v, i) (uint64_t)(v) << 8 * (i)
#define LB_MADDUBS_S8_EACH(v)                                                                                                              \
    {LB_MADDUBS_S8_BYTE(v, 0), LB_MADDUBS_S8_BYTE(v, 1), LB_MADDUBS_S8_BYTE(v, 2), LB_MADDUBS_S8_BYTE(v, 3),                               \
     LB_MADDUBS_S8_BYTE(v, 4), LB_MADDUBS_S8_BYTE(v, 5), LB_MADDUBS_S8_BYTE(v, 6), LB_MADDUBS_S8_BYTE(v, 7)}
static const _Alignas(64) uint64_t lb_maddubs_s8_ones[2 * LB_MADDUBS_S8_OPEN] = LB_MADDUBS_S8_EACH(255);
static const _Alignas(64) uint64_t lb_maddubs_s8_sums[2 * LB_MADDUBS_S8_OPEN] = LB_MADDUBS_S8_EACH(LB_MADDUBS_S8_SUM);

/* Open groups. */
typedef struct {
    uint64_t quads[LB_MADDUBS_S8_OPEN];   /* the numbers of up to four, 16 bits each */
    uint64_t there[LB_MADDUBS_S8_OPEN];   /* how many there are */
    __m256i room[LB_MADDUBS_S8_SUMS / 4]; /* what a sum may still get: of each of the groups, then the next sum */
    uint64_t emptied; /* the one that was closed because it was full, which may wait until the next quad; 8 and more: none */
    uint64_t next;    /* that is closed where there is no room */
} lb_maddubs_s8_open;

/* A quad by its number. */
LB_INLINE void lb_maddubs_s8_put(lb_maddubs_s8_open *t, uint16_t **list, const uint8_t *sums, uint64_t quad) {
    const __m256i all = _mm256_broadcastsi128_si256(_mm_load_si128((const __m128i *)(const void *)(sums + 16 * quad)));
    __m256i own[LB_MADDUBS_S8_SUMS / 4], over = _mm256_setzero_si256();
    LB_UNROLL
    for (int i = 0; i < LB_MADDUBS_S8_SUMS / 4; i++) {
        const __m256i each = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
        own[i] = _mm256_shuffle_epi8(all, _mm256_add_epi8(each, _mm256_set1_epi8((char)(4 * i))));
        over = _mm256_or_si256(over, _mm256_subs_epu8(own[i], t->room[i]));
    }
    const __m128i two = _mm_or_si128(_mm256_castsi256_si128(over), _mm256_extracti128_si256(over, 1));
    const __m128i fits = _mm_cmpeq_epi8(_mm_or_si128(two, _mm_srli_si128(two, 8)), _mm_setzero_si128());
    const uint64_t fit = (uint64_t)_mm_movemask_epi8(fits) & 255;
    const uint64_t nowhere = (uint64_t)(fit != 0) - 1; /* all ones, or zero */
    const uint64_t which = (uint64_t)__builtin_ctzll(fit | (nowhere & (uint64_t)1 << t->next));
    t->next = (t->next - nowhere) % LB_MADDUBS_S8_OPEN;
    const __m256i emptied = _mm256_set1_epi64x((int64_t)lb_maddubs_s8_sums[t->emptied]);
    const __m256i closed = _mm256_set1_epi64x((int64_t)lb_maddubs_s8_sums[which | (LB_MADDUBS_S8_OPEN & ~nowhere)]);
    const __m256i ones = _mm256_set1_epi64x((int64_t)lb_maddubs_s8_ones[which]);
    LB_UNROLL
    for (int i = 0; i < LB_MADDUBS_S8_SUMS / 4; i++)
        t->room[i] = _mm256_sub_epi8(_mm256_max_epu8(_mm256_max_epu8(t->room[i], emptied), closed), _mm256_and_si256(own[i], ones));
    const uint64_t were = t->quads[which], there = t->there[which], more = were | quad << 16 * there;
    const uint64_t now = there + 1 + nowhere, full = 0 - (uint64_t)(now == LB_MADDUBS_S8_MOST_QUADS);
    const uint64_t out = (more & ~nowhere) | (were & nowhere), stays = ~nowhere & ~full;
    memcpy(list[now], &out, 8);
    list[now] += now & (full | nowhere);
    t->quads[which] = (more & stays) | (quad & nowhere);
    t->there[which] = (now & stays) | (1 & nowhere);
    t->emptied = which | (LB_MADDUBS_S8_OPEN & ~full);
}

/* The groups of `count` quads, 2^16 at most, whose sums are given, 12 in 16 bytes: the numbers of the quads of those of four, of three, of
 * two and of one, in lists `apart` numbers apart, where there is room for four numbers more; and how many numbers each list has. Both
 * halves of the quads are done at a time, with eight open groups each, because every quad waits for the one before it. */
static inline void lb_maddubs_s8_lists_of(const uint8_t *sums, int32_t count, uint16_t *lists, ptrdiff_t apart, ptrdiff_t *lengths) {
    const __m256i most = _mm256_set1_epi8((char)LB_MADDUBS_S8_SUM);
    const lb_maddubs_s8_open start = {{0}, {0}, {most, most, most}, LB_MADDUBS_S8_OPEN, 0};
    lb_maddubs_s8_open left = start, right = start;
    uint16_t unmeant[4], *list[LB_MADDUBS_S8_MOST_QUADS + 1] = {unmeant, lists + 3 * apart, lists + 2 * apart, lists + apart, lists};
    const uint64_t half = (uint64_t)count / 2;
    for (uint64_t i = 0; i < half; i++) {
        lb_maddubs_s8_put(&left, list, sums, i);
        lb_maddubs_s8_put(&right, list, sums, half + i);
    }
    if (count % 2)
        lb_maddubs_s8_put(&left, list, sums, (uint64_t)count - 1);
    for (int i = 0; i < 2 * LB_MADDUBS_S8_OPEN; i++) {
        const lb_maddubs_s8_open *t = i < LB_MADDUBS_S8_OPEN ? &left : &right;
        const uint64_t there = t->there[i % LB_MADDUBS_S8_OPEN];
        memcpy(list[there], &t->quads[i % LB_MADDUBS_S8_OPEN], 8);
        list[there] += there;
    }
    for (int i = 0; i < LB_MADDUBS_S8_MOST_QUADS; i++)
        lengths[i] = list[LB_MADDUBS_S8_MOST_QUADS - i] - (lists + i * apart);
}

#endif
