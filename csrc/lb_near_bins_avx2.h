/* Quads of a tile of lb_near_avx2.h in groups whose lanes need nothing added: in each the positive d of a row sum up to 128 at most, and
 * the negative ones to -128, so that the lane, a sum of d (w + 128), and every part of it is within 255 * 128 whatever the weights are.
 *
 * Quads come one after the other and go into the first of eight open groups that has room for all of their sums; where none has, one of
 * them in turn is closed as it is. Nothing of that can be foreseen by the processor, so there is no branch: what may be closed is written
 * to where it is overwritten if that was not meant. */
#ifndef LB_NEAR_BINS_AVX2_H
#define LB_NEAR_BINS_AVX2_H

#include "lb_near_loops_avx2.h"

enum {
    LB_NEAR_OPEN = 8,
    LB_NEAR_MOST_QUADS = 3,
    LB_NEAR_SUM = 128,
    LB_NEAR_COUNT = 42 /* what counts as a sum of every quad, so that there is no room for a fourth */
};

/* Bytes for eight open groups, 16 each: row i has them for group i and zeros for others; rows 8 ... 15 have nothing but zeros. */
#define LB_NEAR_BYTES(v) v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v
#define LB_NEAR_ROWS_OF(v)                                                                                                                 \
    {                                                                                                                                      \
        {LB_NEAR_BYTES(v)}, {[16] = LB_NEAR_BYTES(v)}, {[32] = LB_NEAR_BYTES(v)}, {[48] = LB_NEAR_BYTES(v)}, {[64] = LB_NEAR_BYTES(v)},    \
            {[80] = LB_NEAR_BYTES(v)}, {[96] = LB_NEAR_BYTES(v)}, {                                                                        \
            [112] = LB_NEAR_BYTES(v)                                                                                                       \
        }                                                                                                                                  \
    }
static const _Alignas(64) uint8_t lb_near_ones[2 * LB_NEAR_OPEN][128] = LB_NEAR_ROWS_OF(255);
static const _Alignas(64) uint8_t lb_near_sums[2 * LB_NEAR_OPEN][128] = LB_NEAR_ROWS_OF(LB_NEAR_SUM);

LB_INLINE __m256i lb_near_part(const uint8_t (*rows)[128], uint64_t row, int i) {
    return _mm256_load_si256((const __m256i *)(const void *)(rows[row] + 32 * i));
}

/* Open groups. */
typedef struct {
    __m256i room[LB_NEAR_OPEN / 2]; /* what the sums of each may still get */
    uint64_t emptied;               /* the one that was closed because it was full, which may wait until the next quad; 8 and more: none */
    uint64_t next;                  /* that is closed where there is no room */
} lb_near_open;

/* A quad by its number. `open`: numbers of up to three quads for each open group, and how many there are. */
LB_INLINE void lb_near_put(lb_near_open *t, uint64_t *open, uint16_t **list, const uint8_t *sums, uint64_t quad) {
    const __m256i own = _mm256_broadcastsi128_si256(_mm_load_si128((const __m128i *)(const void *)(sums + 16 * quad)));
    uint64_t fit = 0;
    LB_UNROLL
    for (int i = 0; i < LB_NEAR_OPEN / 2; i++) {
        const __m256i fits = _mm256_cmpeq_epi64(_mm256_subs_epu8(own, t->room[i]), _mm256_setzero_si256());
        fit |= (uint64_t)(uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(fits)) << 4 * i;
    }
    fit &= fit >> 1 & 0x5555;
    const uint64_t nowhere = (uint64_t)(fit != 0) - 1; /* all ones, or zero */
    const uint64_t which = (uint64_t)__builtin_ctzll(fit | (nowhere & (uint64_t)1 << 2 * t->next)) / 2;
    t->next = (t->next - nowhere) % LB_NEAR_OPEN;
    const uint64_t closed = which | (LB_NEAR_OPEN & ~nowhere);
    LB_UNROLL
    for (int i = 0; i < LB_NEAR_OPEN / 2; i++) {
        const __m256i all = _mm256_max_epu8(t->room[i], lb_near_part(lb_near_sums, t->emptied, i));
        const __m256i before = _mm256_max_epu8(all, lb_near_part(lb_near_sums, closed, i));
        t->room[i] = _mm256_sub_epi8(before, _mm256_and_si256(own, lb_near_part(lb_near_ones, which, i)));
    }
    const uint64_t were = open[which], there = were >> 48, now = there + 1 + nowhere;
    const uint64_t more = (were | quad << 16 * (there & 3)) + ((uint64_t)1 << 48), fresh = quad | (uint64_t)1 << 48;
    const uint64_t full = 0 - (uint64_t)(now == LB_NEAR_MOST_QUADS), out = (more & ~nowhere) | (were & nowhere);
    memcpy(list[now], &out, 8);
    list[now] += now & (full | nowhere);
    open[which] = (more & ~nowhere & ~full) | (fresh & nowhere);
    t->emptied = which | (LB_NEAR_OPEN & ~full);
}

/* The groups of `count` quads, 2^16 at most, whose 16 sums are given: the numbers of the quads of those of three, of two and of one, in
 * lists `apart` numbers apart, where there is room for four numbers more; and how many numbers each list has. Both halves of the quads are
 * done at a time, with eight open groups each, because every quad waits for the one before it. */
static inline void lb_near_bins(const uint8_t *sums, int32_t count, uint16_t *lists, ptrdiff_t apart, ptrdiff_t *lengths) {
    const __m256i most = _mm256_set1_epi8((char)LB_NEAR_SUM);
    const lb_near_open start = {{most, most, most, most}, LB_NEAR_OPEN, 0};
    lb_near_open left = start, right = start;
    uint64_t open[2][LB_NEAR_OPEN] = {{0}};
    uint16_t unmeant[4], *list[LB_NEAR_MOST_QUADS + 1] = {unmeant, lists + 2 * apart, lists + apart, lists};
    const uint64_t half = (uint64_t)count / 2;
    for (uint64_t i = 0; i < half; i++) {
        lb_near_put(&left, open[0], list, sums, i);
        lb_near_put(&right, open[1], list, sums, half + i);
    }
    if (count % 2)
        lb_near_put(&left, open[0], list, sums, (uint64_t)count - 1);
    for (int i = 0; i < 2 * LB_NEAR_OPEN; i++) {
        const uint64_t group = open[i / LB_NEAR_OPEN][i % LB_NEAR_OPEN], there = group >> 48;
        memcpy(list[there], &group, 8);
        list[there] += there;
    }
    for (int i = 0; i < LB_NEAR_MOST_QUADS; i++)
        lengths[i] = list[LB_NEAR_MOST_QUADS - i] - (lists + i * apart);
}

#endif
