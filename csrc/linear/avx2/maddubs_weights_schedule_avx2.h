/* Weights into groups (maddubs_weights_avx2.h): which quads there are, and which of them go together. */
#ifndef LB_MADDUBS_WEIGHTS_SCHEDULE_AVX2_H
#define LB_MADDUBS_WEIGHTS_SCHEDULE_AVX2_H

#include "linear/avx2/weights_avx2.h"

enum { LB_LANE_MOST = 255, LB_TRIES = 128 }; /* tries: quads that are looked at for a place in a group, so that packing stays linear in k */

typedef struct {
    _Alignas(64) int8_t w[32]; /* eight columns of four k */
    uint8_t load[16];          /* of each lane: the sum of |w| */
    uint32_t quad;
    uint32_t most;   /* of load */
    uint32_t next;   /* the one after it among those that have no group yet */
    uint32_t turned; /* whether its odd k are: it may only be the first of a group */
} lb_item;

/* The parts of scratch. A quad has two parts at most: a lane's positive weights sum up to 254, its negative ones to 256. */
typedef struct {
    lb_item *items;
    uint32_t *members; /* items, group by group */
    uint32_t *starts;  /* of each group among the members, and the end of the last */
    ptrdiff_t bytes;
} lb_schedule;

static inline lb_schedule lb_schedule_at(void *base, int32_t k) {
    const ptrdiff_t most = 2 * (lb_round_up(k < LB_MADDUBS_W_CHUNK ? k : LB_MADDUBS_W_CHUNK, 4) / 4),
                    items = most * (ptrdiff_t)sizeof(lb_item), numbers = 4 * (most + 1);
    char *at = base;
    return (lb_schedule){(lb_item *)(void *)at, (uint32_t *)(void *)(at + items), (uint32_t *)(void *)(at + items + numbers),
                         items + 2 * numbers};
}

static inline ptrdiff_t lb_schedule_bytes(int32_t k) {
    return lb_schedule_at(0, k).bytes;
}

/* What the weights of a lane may have: their part with positive and negative sums of 128 at most. The rest stays in w. */
static inline void lb_cut_lane(int8_t w[2], int8_t part[2]) {
    const int up = (w[0] > 0 ? w[0] : 0) + (w[1] > 0 ? w[1] : 0), down = (w[0] < 0 ? -w[0] : 0) + (w[1] < 0 ? -w[1] : 0);
    const int excess = up > 128 ? up - 128 : down > 128 ? 128 - down : 0; /* both weights have its sign */
    const int larger = excess > 0 ? w[1] > w[0] : w[1] < w[0];
    part[0] = w[0], part[1] = w[1];
    part[larger] = (int8_t)(part[larger] - excess);
    w[0] = w[1] = 0;
    w[larger] = (int8_t)excess;
}

/* Sums of |w| of the lanes, of positive weights and of negative ones. */
static inline __m256i lb_lane_sums(__m256i w) {
    return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_set1_epi8(1));
}

static inline __m256i lb_lane_positive(__m256i w) {
    return _mm256_maddubs_epi16(_mm256_max_epi8(w, _mm256_setzero_si256()), _mm256_set1_epi8(1));
}

/* Whether lanes have more than vpmaddubsw holds. */
static inline int lb_too_much(__m256i w, __m256i sums) {
    const __m256i up = lb_lane_positive(w);
    return _mm256_movemask_epi8(_mm256_cmpgt_epi16(_mm256_max_epi16(up, _mm256_sub_epi16(sums, up)), _mm256_set1_epi16(128))) != 0;
}

/* The items of `width` columns, w[column * k + ...], and k from `first` on, up to a chunk of them; gives how many. */
static inline uint32_t lb_items_of(const int8_t *w, int32_t k, int32_t first, int32_t width, lb_item *items) {
    uint32_t count = 0;
    for (int32_t at = first; at < k && at < first + LB_MADDUBS_W_CHUNK; at += 4) {
        _Alignas(32) int8_t quad[32] = {0};
        for (int32_t j = 0; j < width; j++)
            memcpy(quad + 4 * j, w + (ptrdiff_t)j * k + at, (size_t)(k - at < 4 ? k - at : 4));
        for (int more = 1; more;) {
            lb_item *item = &items[count++];
            __m256i v = _mm256_load_si256((const __m256i *)(const void *)quad);
            const __m256i turned = _mm256_sign_epi8(v, _mm256_set1_epi16(-255)); /* odd ones negated, but for -128 */
            __m256i sums = lb_lane_sums(v);
            more = lb_too_much(v, sums);
            item->turned = more && !lb_too_much(turned, sums) && !_mm256_movemask_epi8(_mm256_cmpeq_epi8(turned, _mm256_set1_epi8(-128)));
            if (item->turned)
                v = turned, more = 0;
            if (more) {
                for (int lane = 0; lane < 16; lane++)
                    lb_cut_lane(quad + 2 * lane, item->w + 2 * lane);
                v = _mm256_load_si256((const __m256i *)(const void *)item->w);
                sums = lb_lane_sums(v);
            } else
                _mm256_store_si256((__m256i *)(void *)item->w, v);
            const __m128i load = _mm_packus_epi16(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
            _mm_store_si128((__m128i *)(void *)item->load, load);
            item->quad = (uint32_t)(at / 4);
            item->most = 0;
            for (int lane = 0; lane < 16; lane++)
                item->most = item->load[lane] > item->most ? item->load[lane] : item->most;
        }
    }
    return count;
}

/* Chains the items, those with the largest lanes first; gives the first. `count` marks the end. */
static inline uint32_t lb_chain(lb_item *items, uint32_t count) {
    uint32_t last[LB_LANE_MOST + 1], first[LB_LANE_MOST + 1];
    for (int most = 0; most <= LB_LANE_MOST; most++)
        first[most] = count;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t most = items[i].most;
        if (first[most] == count)
            first[most] = i;
        else
            items[last[most]].next = i;
        last[most] = i;
    }
    uint32_t head = count;
    for (int most = 0; most <= LB_LANE_MOST; most++)
        if (first[most] != count) {
            items[last[most]].next = head;
            head = first[most];
        }
    return head;
}

/* How well an item fills a group: the sum over lanes of what it takes times the room that there is, about a quarter of it. */
static inline int lb_filled(__m128i load, __m128i quarter) {
    __m128i sums = _mm_madd_epi16(_mm_maddubs_epi16(load, quarter), _mm_set1_epi16(1));
    sums = _mm_add_epi32(sums, _mm_shuffle_epi32(sums, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(sums, _mm_shuffle_epi32(sums, 0xB1)));
}

/* Groups: the heaviest item that has none, and then again and again the one among the heaviest that fits and fills it best. Gives their
 * number. */
static inline uint32_t lb_group(const lb_schedule *s, uint32_t count) {
    lb_item *items = s->items;
    uint32_t groups = 0, members = 0;
    for (uint32_t head = lb_chain(items, count); head != count;) {
        s->starts[groups++] = members;
        s->members[members++] = head;
        __m128i room = _mm_xor_si128(_mm_load_si128((const __m128i *)(const void *)items[head].load), _mm_set1_epi8(-1));
        head = items[head].next;
        for (uint32_t size = 1; size < LB_MADDUBS_W_MOST; size++) {
            const __m128i quarter = _mm_and_si128(_mm_srli_epi16(room, 2), _mm_set1_epi8(63));
            uint32_t *link = &head, *best = NULL; /* what leads to an item */
            int most = -1, tries = LB_TRIES;
            for (uint32_t i = head; i != count && tries-- > 0; link = &items[i].next, i = *link) {
                const __m128i load = _mm_load_si128((const __m128i *)(const void *)items[i].load), over = _mm_subs_epu8(load, room);
                if (items[i].turned || !_mm_testz_si128(over, over))
                    continue;
                const int filled = lb_filled(load, quarter);
                if (filled > most)
                    most = filled, best = link;
            }
            if (!best)
                break;
            const uint32_t i = *best;
            room = _mm_sub_epi8(room, _mm_load_si128((const __m128i *)(const void *)items[i].load));
            s->members[members++] = i;
            *best = items[i].next;
        }
    }
    s->starts[groups] = members;
    return groups;
}

static inline int lb_kind_of(const lb_schedule *s, uint32_t group) {
    const uint32_t size = s->starts[group + 1] - s->starts[group];
    return lb_maddubs_w_kind((int)size, (int)s->items[s->members[s->starts[group]]].turned);
}

/* One chunk of a panel, as the tiles read it: its groups, kind by kind, and the numbers of their quads. `at` counts units of 32 bytes
 * of the packed weights; gives the one after. What takes the centring away goes onto added[8]. */
static inline uint32_t lb_put_groups(const lb_schedule *s, uint32_t groups, char *packed, uint32_t at, lb_maddubs_w_panel *panel,
                                     int32_t *added) {
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i *out = (__m256i *)(void *)packed + at, sum = _mm256_load_si256((const __m256i *)(const void *)added);
    uint16_t *quad = (uint16_t *)(void *)(packed + 32 * ((ptrdiff_t)at + groups + s->starts[groups]));
    memset(quad, 0, (2 * (size_t)s->starts[groups] + 31) / 32 * 32);
    *panel = (lb_maddubs_w_panel){.weights = at, .quads = at + groups + s->starts[groups]};
    for (int kind = 2 * LB_MADDUBS_W_MOST - 1; kind >= 0; kind--)
        for (uint32_t g = 0; g < groups; g++) {
            if (lb_kind_of(s, g) != kind)
                continue;
            __m256i lean = _mm256_setzero_si256(); /* by how much negative weights outweigh positive ones */
            for (uint32_t i = s->starts[g]; i < s->starts[g + 1]; i++) {
                const lb_item *item = &s->items[s->members[i]];
                const __m256i w = _mm256_load_si256((const __m256i *)(const void *)item->w), up = lb_lane_positive(w);
                lean = _mm256_add_epi16(lean, _mm256_sub_epi16(_mm256_sub_epi16(lb_lane_sums(w), up), up));
                _mm256_store_si256(out++, w);
                *quad++ = (uint16_t)item->quad;
                if (item->turned) /* of the odd ones: (255 - a) (-w) = a w - 255 w */
                    sum = _mm256_sub_epi32(sum, _mm256_madd_epi16(_mm256_srai_epi16(w, 8), _mm256_set1_epi16(255)));
            }
            /* floor(255 * lean / 2): sums of products are then within -32513 ... 32512 */
            const __m256i centre = _mm256_add_epi16(_mm256_mullo_epi16(lean, _mm256_set1_epi16(127)), _mm256_srai_epi16(lean, 1));
            _mm256_store_si256(out++, centre);
            sum = _mm256_sub_epi32(sum, _mm256_madd_epi16(centre, ones));
            panel->groups[kind]++;
        }
    _mm256_store_si256((__m256i *)(void *)added, sum);
    return panel->quads + (2 * s->starts[groups] + 31) / 32;
}

#endif
