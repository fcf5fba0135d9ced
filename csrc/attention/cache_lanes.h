/* cache.h over the words of sixteen lanes (lanes16_avx2.h, lanes16_avx512.h stand before this). */
#ifndef LB_CACHE_LANES_H
#define LB_CACHE_LANES_H

#include "attention/cache.h"
#include "attention/cache_place.h"
#include "base/half.h"

LB_INLINE void lb_lanes_cache_store_f16(const lb_cache_store_f16_params *p, const float *x, const int32_t *positions,
                                        const int32_t *sequences, const int32_t *table, uint16_t *cache, int32_t begin, int32_t end) {
    for (int32_t row = begin; row < end; row++) {
        uint16_t *to = lb_cache_page_of_row(p, table, sequences[row], positions[row], cache);
        const int32_t at = positions[row] % LB_PAGE;
        const float *from = x + (ptrdiff_t)row * p->heads * p->depth;
        for (int32_t h = 0; to && h < p->heads; h++, from += p->depth, to += p->depth * LB_PAGE) {
            int32_t d = 0;
            for (; d + 16 <= p->depth; d += 16) {
                const lb_l16 v = lb_l16_load(from + d);
                if (!p->keys) {
                    lb_l16_put_halves(to + (ptrdiff_t)at * p->depth + d, v);
                    continue;
                }
                uint16_t some[16];
                lb_l16_put_halves(some, v);
                LB_UNROLL_ALL
                for (int i = 0; i < 16; i++)
                    to[(d + i) * LB_PAGE + at] = some[i];
            }
            for (; d < p->depth; d++)
                to[p->keys ? d * LB_PAGE + at : at * p->depth + d] = lb_f16_of_f32(from[d]);
        }
    }
}

enum { LB_QUERIES = LB_L16_REGISTERS == 32 ? 12 : 3 }; /* whose sums stay in registers */

/* A query of an item: a row's head, the positions that it sees, its scores. */
typedef struct {
    const float *q;
    float *e, *sums, *out;
    int32_t first, last;
    float most, total;
} lb_query;

/* Scores of `count` queries against a page that begins at position `start`. The page at `next` is asked for. */
LB_INLINE void lb_scores(const int count, const lb_cache_attention_f16_params *p, lb_query *query, const uint16_t *keys,
                         const uint16_t *next, int32_t start) {
    lb_l16 s[LB_QUERIES][2];
    LB_UNROLL_ALL
    for (int i = 0; i < count; i++)
        s[i][0] = s[i][1] = lb_l16_zero();
    for (int32_t d = 0; d < p->depth; d++) {
        _mm_prefetch((const char *)(next + (ptrdiff_t)d * LB_PAGE), _MM_HINT_T0);
        const lb_l16 k[2] = {lb_l16_halves(keys + (ptrdiff_t)d * LB_PAGE), lb_l16_halves(keys + (ptrdiff_t)d * LB_PAGE + 16)};
        LB_UNROLL_ALL
        for (int i = 0; i < count; i++) {
            const lb_l16 q = lb_l16_all(query[i].q[d]);
            s[i][0] = lb_l16_add(s[i][0], lb_l16_mul(q, k[0]));
            s[i][1] = lb_l16_add(s[i][1], lb_l16_mul(q, k[1]));
        }
    }
    const lb_l16 scale = lb_l16_all(p->scale);
    LB_UNROLL_ALL
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < 2; j++) {
            lb_l16 v = lb_l16_mul(s[i][j], scale);
            if (p->softcap > 0.0f)
                v = lb_l16_mul(lb_l16_all(p->softcap), lb_l16_tanh(lb_l16_div(v, lb_l16_all(p->softcap))));
            lb_l16_store(query[i].e + start + 16 * j, lb_l16_number(v));
        }
    }
}

/* Hides what queries do not see of a page, and finds their largest score. */
LB_INLINE void lb_hide(int count, lb_query *query, int32_t start, int exists) {
    for (int i = 0; i < count; i++) {
        float *e = query[i].e + start;
        const int32_t first = query[i].first - start, last = query[i].last - start;
        if (!exists || first > 0 || last < LB_PAGE - 1)
            for (int32_t t = 0; t < LB_PAGE; t++)
                if (!exists || t < first || t > last)
                    e[t] = lb_f32_of_bits(0xff800000u);
        const float most = lb_l16_most(lb_l16_max(lb_l16_load(e), lb_l16_load(e + 16)));
        query[i].most = most > query[i].most ? most : query[i].most;
    }
}

/* sums += e[t] * v[t] for t = from ... to - 1 of one page, of 16 * `wide` features. The page at `next` is asked for. */
LB_INLINE void lb_values(const int count, const int wide, lb_query *query, const uint16_t *values, const uint16_t *next, int32_t depth,
                         int32_t d, int32_t start, int32_t from, int32_t to) {
    lb_l16 y[LB_QUERIES][2];
    LB_UNROLL_ALL
    for (int i = 0; i < count; i++)
        LB_UNROLL_ALL
    for (int j = 0; j < wide; j++)
        y[i][j] = lb_l16_load(query[i].sums + d + 16 * j);
    for (int32_t t = from; t < to; t++) {
        const uint16_t *at = values + (ptrdiff_t)(t - start) * depth + d;
        _mm_prefetch((const char *)(next + (ptrdiff_t)(t - start) * depth + d), _MM_HINT_T0);
        lb_l16 v[2];
        LB_UNROLL_ALL
        for (int j = 0; j < wide; j++)
            v[j] = lb_l16_halves(at + 16 * j);
        LB_UNROLL_ALL
        for (int i = 0; i < count; i++) {
            const lb_l16 e = lb_l16_all(query[i].e[t]);
            LB_UNROLL_ALL
            for (int j = 0; j < wide; j++)
                y[i][j] = lb_l16_add(y[i][j], lb_l16_mul(e, v[j]));
        }
    }
    LB_UNROLL_ALL
    for (int i = 0; i < count; i++)
        LB_UNROLL_ALL
    for (int j = 0; j < wide; j++)
        lb_l16_store(query[i].sums + d + 16 * j, y[i][j]);
}

/* The same for all features. */
LB_INLINE void lb_all_values(const int count, lb_query *query, const uint16_t *values, const uint16_t *next, int32_t depth, int32_t start,
                             int32_t from, int32_t to) {
    int32_t d = 0;
    for (; d + 32 <= depth; d += 32)
        lb_values(count, 2, query, values, next, depth, d, start, from, to);
    for (; d + 16 <= depth; d += 16)
        lb_values(count, 1, query, values, next, depth, d, start, from, to);
    for (; d < depth; d++)
        for (int i = 0; i < count; i++)
            for (int32_t t = from; t < to; t++)
                query[i].sums[d] = query[i].sums[d] + query[i].e[t] * lb_f32_of_f16(values[(ptrdiff_t)(t - start) * depth + d]);
}

/* A function for each count, so that each has the registers for itself. */
#define LB_QUERIES_OF(count)                                                                                                               \
    static __attribute__((noinline)) void lb_scores##count(const lb_cache_attention_f16_params *p, lb_query *query, const uint16_t *keys,  \
                                                           const uint16_t *next, int32_t start) {                                          \
        lb_scores(count, p, query, keys, next, start);                                                                                     \
    }                                                                                                                                      \
    static __attribute__((noinline)) void lb_values##count(lb_query *query, const uint16_t *values, const uint16_t *next, int32_t depth,   \
                                                           int32_t start, int32_t from, int32_t to) {                                      \
        lb_all_values(count, query, values, next, depth, start, from, to);                                                                 \
    }

LB_QUERIES_OF(1)
LB_QUERIES_OF(2)
LB_QUERIES_OF(3)
#if LB_L16_REGISTERS == 32
LB_QUERIES_OF(4)
LB_QUERIES_OF(6)
LB_QUERIES_OF(8)
LB_QUERIES_OF(12)
#endif

typedef void lb_scores_fn(const lb_cache_attention_f16_params *p, lb_query *query, const uint16_t *keys, const uint16_t *next,
                          int32_t start);
typedef void lb_values_fn(lb_query *query, const uint16_t *values, const uint16_t *next, int32_t depth, int32_t start, int32_t from,
                          int32_t to);

static const struct {
    int count;
    lb_scores_fn *scores;
    lb_values_fn *values;
} lb_queries_of[] = {
#if LB_L16_REGISTERS == 32
    {12, lb_scores12, lb_values12}, {8, lb_scores8, lb_values8}, {6, lb_scores6, lb_values6}, {4, lb_scores4, lb_values4},
#endif
    {3, lb_scores3, lb_values3},    {2, lb_scores2, lb_values2}, {1, lb_scores1, lb_values1},
};

/* The largest number of queries, up to `count`, that has a function. */
static inline int lb_queries_at_once(int count) {
    int i = 0;
    while (lb_queries_of[i].count > count)
        i++;
    return i;
}

/* e = exp(s - the largest), and their sum. */
LB_INLINE void lb_exponentials(lb_query *query) {
    const lb_l16 most = lb_l16_all(query->most);
    lb_l16 sum = lb_l16_zero();
    for (int32_t t = query->first / 16 * 16; t <= query->last; t += 16) {
        const lb_l16 e = lb_l16_exp(lb_l16_sub(lb_l16_load(query->e + t), most));
        lb_l16_store(query->e + t, e);
        sum = lb_l16_add(sum, e);
    }
    query->total = lb_l16_sum(sum);
}

/* A head of a page; of page 0 where it does not exist. */
LB_INLINE const uint16_t *lb_page_at(const lb_cache_attention_f16_params *p, const uint16_t *cache, int32_t page, int32_t head) {
    return cache + ((ptrdiff_t)(page < 0 ? 0 : page) * p->kv_heads + head) * p->depth * LB_PAGE;
}

/* Queries of one sequence, whose pages are `own`, and of head `head` of the cache. */
static void lb_attend(const lb_cache_attention_f16_params *p, lb_query *query, int count, const uint16_t *k, const uint16_t *v,
                      const int32_t *own, int32_t head) {
    int32_t least = INT32_MAX, begin = 0, end = INT32_MAX, most = -1;
    for (int i = 0; i < count; i++) {
        least = query[i].first < least ? query[i].first : least, most = query[i].last > most ? query[i].last : most;
        begin = query[i].first > begin ? query[i].first : begin, end = query[i].last < end ? query[i].last : end;
        query[i].most = lb_f32_of_bits(0xff800000u);
        memset(query[i].sums, 0, sizeof(float) * (size_t)p->depth);
    }
    for (int32_t start = least / LB_PAGE * LB_PAGE; start <= most; start += LB_PAGE) {
        const int32_t page = lb_cache_page(own, p->slots, p->pages, start);
        const int32_t after = lb_cache_page(own, p->slots, p->pages, start + LB_PAGE <= most ? start + LB_PAGE : least);
        const uint16_t *next = start + LB_PAGE <= most ? lb_page_at(p, k, after, head) : lb_page_at(p, v, after, head);
        for (int i = 0, f; page >= 0 && i < count; i += lb_queries_of[f].count) {
            f = lb_queries_at_once(count - i);
            lb_queries_of[f].scores(p, query + i, lb_page_at(p, k, page, head), next, start);
        }
        lb_hide(count, query, start, page >= 0);
    }
    for (int i = 0; i < count; i++)
        lb_exponentials(&query[i]);
    for (int32_t start = least / LB_PAGE * LB_PAGE; start <= most; start += LB_PAGE) {
        const int32_t page = lb_cache_page(own, p->slots, p->pages, start), stop = start + LB_PAGE;
        const int32_t after = lb_cache_page(own, p->slots, p->pages, start + LB_PAGE <= most ? start + LB_PAGE : start);
        const uint16_t *values = lb_page_at(p, v, page, head), *next = lb_page_at(p, v, after, head);
        if (page < 0)
            continue;
        if (begin <= start && end >= stop - 1) { /* all see all of it */
            for (int i = 0, f; i < count; i += lb_queries_of[f].count) {
                f = lb_queries_at_once(count - i);
                lb_queries_of[f].values(query + i, values, next, p->depth, start, start, stop);
            }
            continue;
        }
        for (int i = 0; i < count; i++) {
            const int32_t from = query[i].first > start ? query[i].first : start, to = query[i].last + 1 < stop ? query[i].last + 1 : stop;
            if (from < to)
                lb_values1(query + i, values, next, p->depth, start, from, to);
        }
    }
    for (int i = 0; i < count; i++) {
        const lb_l16 total =
            lb_l16_all(query[i].most > lb_f32_of_bits(0xff800000u) ? query[i].total : 1.0f); /* it saw nothing: sums are 0 */
        int32_t d = 0;
        for (; d + 16 <= p->depth; d += 16)
            lb_l16_store(query[i].out + d, lb_l16_div(lb_l16_load(query[i].sums + d), total));
        if (d < p->depth)
            lb_l16_put(query[i].out + d, lb_l16_div(lb_l16_get(query[i].sums + d, p->depth - d), total), p->depth - d);
    }
}

LB_INLINE void lb_lanes_cache_attention_f16(const lb_cache_attention_f16_params *p, const float *q, const uint16_t *k, const uint16_t *v,
                                            const int32_t *positions, const int32_t *sequences, const int32_t *table, float *out,
                                            void *scratch, int32_t begin, int32_t end) {
    enum { MOST = 64 };
    const int32_t blocks = (p->rows + p->block - 1) / p->block, group = p->heads / p->kv_heads, all = p->slots * LB_PAGE;
    for (int32_t item = begin; item < end; item++) {
        const int32_t head = item / blocks, top = item % blocks * p->block, bottom = top + p->block < p->rows ? top + p->block : p->rows;
        for (int32_t next = 0, queries = (bottom - top) * group; next < queries;) {
            lb_query query[MOST];
            int count = 0;
            const int32_t sequence = sequences[top + next / group];
            const int32_t *own = lb_cache_pages(table, p->sequences, p->slots, sequence);
            float *room = scratch;
            for (; next < queries && sequences[top + next / group] == sequence && count < MOST; next++) {
                const int32_t row = top + next / group, position = positions[row];
                const ptrdiff_t at = ((ptrdiff_t)row * p->heads + head * group + next % group) * p->depth;
                const int32_t last = !own ? -1 : position < all ? position : all - 1;
                const int32_t first = p->window > 0 && position >= p->window ? position - p->window + 1 : 0;
                const int sees = last >= first;
                query[count++] = (lb_query){q + at, room, room + all, out + at, sees ? first : 0, sees ? last : -1, 0.0f, 0.0f};
                room += all + (p->depth + 15) / 16 * 16;
            }
            lb_attend(p, query, count, k, v, own, head);
        }
    }
}

#endif
