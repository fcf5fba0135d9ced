/* Attention over keys and values of earlier tokens, which stay in pages. What holds for every contract stands in lb.h.
 *
 * A page has 32 positions of every head. Keys of a page: (heads, depth, 32), values: (heads, 32, depth), halves. Row r of the activations
 * is the token at `positions[r]` of sequence `sequences[r]`, and position p of sequence s is in page `table[s][p / 32]`, at p % 32.
 * Pages outside 0 ... pages - 1, sequences outside the table and positions outside its rows do not exist: nothing is stored there, and
 * nothing is seen there.
 *
 * These contracts promise bits, and a row's bits depend on nothing but the row and its own pages. No multiply-add is fused. */
#ifndef LB_CACHE_H
#define LB_CACHE_H

#include <stdint.h>

/* ---- cache_store_f16: x (rows, heads, depth) to its places, rounded to halves. Rows have places of their own. Item: a row. */
typedef struct {
    int32_t heads;
    int32_t depth;
    int32_t pages;
    int32_t sequences; /* rows of the table */
    int32_t slots;     /* pages of a sequence: columns of the table */
    int32_t keys;      /* 1: the layout of keys, 0: of values */
} lb_cache_store_f16_params;

typedef void lb_cache_store_f16_fn(const lb_cache_store_f16_params *p, const float *x, const int32_t *positions, const int32_t *sequences,
                                   const int32_t *table, uint16_t *cache, int32_t begin, int32_t end);

/* ---- cache_attention_f16: q and out are (rows, heads, depth); head h reads head h / (heads / kv_heads) of the cache. A row sees the
 * positions first ... positions[row] of its sequence: first is 0, or positions[row] - window + 1 where window > 0.
 *
 *   s[t] = +0; for d in ascending order s[t] = s[t] + q[d] * k[t][d];  s[t] = s[t] * scale
 *   softcap > 0: s[t] = softcap * tanh(s[t] / softcap)
 *   e[t] = exp(s[t] - the largest s);  lane j of 16 sums e[t] over t % 16 = j in order, from +0, and lanes are added as in rms_norm_rows
 *   out[d] = +0; for t in ascending order out[d] = out[d] + e[t] * v[t][d];  out[d] = out[d] / sum
 *
 * exp and tanh are those of base/exp.h; a score that is NaN counts as -infinity. A row that sees nothing gives +0. Item: `block` rows of a
 * head of the cache, kv_heads * ceil(rows / block) of them, those of a head together. scratch, aligned to 64, for r = block * heads /
 * kv_heads: 4 * r * (32 * slots + depth + 64) bytes. */
typedef struct {
    int32_t rows;
    int32_t heads;
    int32_t kv_heads;
    int32_t depth;
    int32_t pages;
    int32_t sequences;
    int32_t slots;
    int32_t window;
    int32_t block; /* >= 1 */
    float scale;
    float softcap;
} lb_cache_attention_f16_params;

typedef void lb_cache_attention_f16_fn(const lb_cache_attention_f16_params *p, const float *q, const uint16_t *k, const uint16_t *v,
                                       const int32_t *positions, const int32_t *sequences, const int32_t *table, float *out, void *scratch,
                                       int32_t begin, int32_t end);

#endif
