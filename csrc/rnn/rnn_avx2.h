/* Recurrent layers on AVX2: products of a state with panels of eight units, as in gemv_avx2.h. Weights are read once a step, and in
 * turn forwards and backwards: what was read last is still in the second-level cache. Lines are asked for before their turn, which that
 * cache gives no faster than the products take them. Gates come when all sums of a step are there: eight units then need not wait for each
 * other. */
#ifndef LB_RNN_AVX2_H
#define LB_RNN_AVX2_H

#include "linear/avx2/gemv_avx2.h"
#include "rnn/rnn_shared.h"

enum { LB_UNITS = 8, LB_AHEAD = 1536 };

typedef __m256 lb_reals;
typedef __m256i lb_ints;

/* What a row of the batch has of scratch; `wide` is hidden rounded up to 64. */
typedef struct {
    int8_t *h;   /* `wide` bytes, where the state is not bytes before */
    float *kept; /* `wide` floats (or integers) between the two halves of a step, twice */
    float *scale;
    int32_t *sums; /* of panels: gates x LB_UNITS each */
    lb_gemv *form; /* the state as it meets the weights */
} lb_rnn_row;

static inline lb_rnn_row lb_rnn_row_at(void *scratch, int32_t hidden, int32_t b) {
    const ptrdiff_t wide = ((ptrdiff_t)hidden + 63) / 64 * 64;
    int8_t *at = (int8_t *)scratch + b * 40 * wide;
    return (lb_rnn_row){at, (float *)(void *)(at + 4 * wide), (float *)(void *)(at + wide), (int32_t *)(void *)(at + 12 * wide),
                        (lb_gemv *)(void *)(at + 28 * wide)};
}

/* Bytes of a panel. */
static inline ptrdiff_t lb_panel_bytes(int32_t hidden, int gates) {
    return gates * LB_UNITS * (((ptrdiff_t)hidden + LB_GEMV_STEP - 1) / LB_GEMV_STEP * LB_GEMV_STEP);
}

/* Bytes of all panels of so many gates: two for every 16 units. */
static inline ptrdiff_t lb_weight_bytes(int32_t hidden, int gates) {
    return (hidden + 15) / 16 * 2 * lb_panel_bytes(hidden, gates);
}

/* row.form = the state of so many bytes, for panels of so many gates. */
static inline void lb_rnn_form(const lb_rnn_row *row, const int8_t *state, int32_t hidden, int32_t zero, int gates) {
    lb_gemv_row(row->form, state, hidden, zero, (uint32_t)gates * 4 * LB_UNITS, 0);
}

/* The sums of an item's units and all rows of the batch. `panels` are those of the direction. */
LB_INLINE void lb_rnn_products(const int gates, const lb_lstm_s8_params *p, const char *panels, const lb_units *u, int32_t step,
                               void *scratch) {
    const ptrdiff_t bytes = lb_panel_bytes(p->hidden, gates);
    const int32_t first = u->first / LB_UNITS, count = (u->last + LB_UNITS - 1) / LB_UNITS - first;
    for (int32_t turn = 0; turn < count; turn++) {
        const int32_t panel = step % 2 ? first + count - 1 - turn : first + turn;
        const uint8_t *w = (const uint8_t *)panels + panel * bytes, *next = turn == count - 1 ? w : step % 2 ? w - bytes : w + bytes;
        for (int32_t b = 0; b < p->batch; b++) {
            const lb_rnn_row row = lb_rnn_row_at(scratch, p->hidden, b);
            __m256i c[LB_GEMV_MOST], *sums = (__m256i *)(void *)(row.sums + panel * gates * LB_UNITS);
            lb_gemv_on_the_way(gates, 0, LB_AHEAD, row.form, (lb_gemv_panel){w, next, bytes, gates * 4 * LB_UNITS}, c);
            for (int i = 0; i < gates; i++)
                _mm256_store_si256(sums + i, c[i]);
        }
    }
}

/* Neighbouring units, of which the first `count` exist. */
typedef struct {
    ptrdiff_t first; /* among the units of its direction */
    int32_t count;   /* 1 ... LB_UNITS */
    __m256i mask;
} lb_lanes;

/* For loops over whole vectors: the compiler knows the count, and takes plain loads and stores. */
LB_INLINE lb_lanes lb_all_lanes(ptrdiff_t first) {
    return (lb_lanes){first, 8, _mm256_set1_epi32(-1)};
}

static inline lb_lanes lb_lanes_at(ptrdiff_t first, int32_t hidden) {
    const int32_t count = hidden - (int32_t)first < 8 ? hidden - (int32_t)first : 8;
    return (lb_lanes){first, count, _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))};
}

LB_INLINE __m256 lb_read(const lb_lanes *u, const float *from) {
    return u->count == 8 ? _mm256_loadu_ps(from + u->first) : _mm256_maskload_ps(from + u->first, u->mask);
}

LB_INLINE void lb_write(const lb_lanes *u, float *to, __m256 v) {
    if (u->count == 8)
        _mm256_storeu_ps(to + u->first, v);
    else
        _mm256_maskstore_ps(to + u->first, u->mask, v);
}

LB_INLINE __m256i lb_read_words(const lb_lanes *u, const int16_t *from) {
    _Alignas(16) int16_t words[8] = {0};
    if (u->count == 8)
        return _mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(from + u->first)));
    memcpy(words, from + u->first, 2 * (size_t)u->count);
    return _mm256_cvtepi16_epi32(_mm_load_si128((const __m128i *)(const void *)words));
}

/* Integers within int16. */
LB_INLINE void lb_write_words(const lb_lanes *u, int16_t *to, __m256i v) {
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    if (u->count == 8)
        _mm_storeu_si128((__m128i *)(void *)(to + u->first), words);
    else
        memcpy(to + u->first, &words, 2 * (size_t)u->count);
}

/* Integers within int8. */
LB_INLINE void lb_write_bytes(const lb_lanes *u, int8_t *to, __m256i v) {
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    const __m128i bytes = _mm_packs_epi16(words, words);
    if (u->count == 8)
        _mm_storel_epi64((__m128i *)(void *)(to + u->first), bytes);
    else
        memcpy(to + u->first, &bytes, (size_t)u->count);
}

LB_INLINE __m256i lb_read_bytes(const lb_lanes *u, const int8_t *from) {
    _Alignas(16) int8_t bytes[16] = {0};
    memcpy(bytes, from + u->first, (size_t)u->count);
    return _mm256_cvtepi8_epi32(_mm_load_si128((const __m128i *)(const void *)bytes));
}

#define LB_RNN_OP(name) _mm256_##name
#define lb_reals_size(v) _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v)
#define lb_reals_as_ints(v) _mm256_castps_si256(v) /* the same bits */
#define lb_ints_as_reals(v) _mm256_castsi256_ps(v)

#include "rnn/rnn_words.h"

/* fl32(sum) * scale for one of the `gates` of panels. */
LB_INLINE __m256 lb_scaled(const lb_lanes *u, const int32_t *sums, int gates, int gate, __m256 scale) {
    const ptrdiff_t at = u->first * gates + gate * LB_UNITS;
    return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_load_si256((const __m256i *)(const void *)(sums + at))), scale);
}

/* lb_round_clamp without the sum: limits are those less the zero point. */
LB_INLINE __m256i lb_round_lanes(__m256 v, __m256 lo, __m256 hi) {
    v = _mm256_and_ps(v, _mm256_cmp_ps(v, v, _CMP_ORD_Q));
    return _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(v, lo), hi));
}

/* By what both neighbours of a node are multiplied, with g + 32768 between them. */
LB_INLINE __m256i lb_node_weights(__m256i at) {
    const __m256i part = _mm256_and_si256(at, _mm256_set1_epi32(127));
    return _mm256_or_si256(_mm256_slli_epi32(part, 16), _mm256_sub_epi32(_mm256_set1_epi32(128), part));
}

LB_INLINE __m256i lb_between(__m256i nodes, __m256i weights) {
    return _mm256_srai_epi32(_mm256_add_epi32(_mm256_madd_epi16(nodes, weights), _mm256_set1_epi32(64)), 7);
}

/* Entries i and i + 1 of the table for four i. Cheaper than vpgatherdd where that is made of many steps. */
LB_INLINE __m128i lb_nodes(__m128i i, const int16_t *table) {
    const uint64_t low = (uint64_t)_mm_cvtsi128_si64(i), high = (uint64_t)_mm_extract_epi64(i, 1);
    int32_t node[4];
    memcpy(node, table + (uint32_t)low, 4);
    memcpy(node + 1, table + (low >> 32), 4);
    memcpy(node + 2, table + (uint32_t)high, 4);
    memcpy(node + 3, table + (high >> 32), 4);
    return _mm_unpacklo_epi64(_mm_insert_epi32(_mm_cvtsi32_si128(node[0]), node[1], 1),
                              _mm_insert_epi32(_mm_cvtsi32_si128(node[2]), node[3], 1));
}

/* lb_tanh16. */
LB_INLINE __m256i lb_tanh16_lanes(__m256i g, const int16_t *table) {
    const __m256i at = _mm256_add_epi32(g, _mm256_set1_epi32(32768)), i = _mm256_srli_epi32(at, 7);
    const __m256i nodes = _mm256_set_m128i(lb_nodes(_mm256_extracti128_si256(i, 1), table), lb_nodes(_mm256_castsi256_si128(i), table));
    return lb_between(nodes, lb_node_weights(at));
}

/* The same in two halves: where the table is to be read, and the weights; then the rest. Indices go by memory, in fewer steps than out of a
 * register, but it takes long until they are there: between the halves come the first ones of other units. */
typedef struct {
    _Alignas(32) uint32_t at[8];
    int32_t weights[8];
} lb_look;

LB_INLINE void lb_look_for(lb_look *to, __m256i g) {
    const __m256i at = _mm256_add_epi32(g, _mm256_set1_epi32(32768));
    _mm256_store_si256((__m256i *)(void *)to->at, _mm256_srli_epi32(at, 7));
    _mm256_store_si256((__m256i *)(void *)to->weights, lb_node_weights(at));
}

LB_INLINE __m256i lb_looked_up(const lb_look *l, const int16_t *table) {
    int32_t node[8];
    for (int k = 0; k < 8; k++)
        memcpy(node + k, table + l->at[k], 4);
    const __m256i nodes = _mm256_setr_epi32(node[0], node[1], node[2], node[3], node[4], node[5], node[6], node[7]);
    return lb_between(nodes, _mm256_load_si256((const __m256i *)(const void *)l->weights));
}

/* Whatever stands in memory is read from there. */
LB_INLINE void lb_compiler_barrier(void) {
    __asm__ volatile("" ::: "memory");
}

/* lb_sigmoid_real, from the entry of the table. */
LB_INLINE __m256 lb_sigmoid_reals(__m256i tanh) {
    const __m256i open = _mm256_cmpeq_epi32(tanh, _mm256_set1_epi32(32767)); /* -1 where it is */
    const __m256i above = _mm256_sub_epi32(_mm256_add_epi32(tanh, _mm256_set1_epi32(32768)), open);
    return _mm256_mul_ps(_mm256_cvtepi32_ps(above), _mm256_set1_ps(0x1p-16f));
}

#include "rnn/rnn_gates.h"

#endif
