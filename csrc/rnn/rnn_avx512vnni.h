/* Recurrent layers on AVX-512-VNNI: products of a state with panels of 16 units by vpdpbusd. States are flipped, h + 128, so that sums
 * begin at -(zero point + 128) * (sum of the weights), modulo 2^32. Weights are read once a step by all rows of the batch, and in turn
 * forwards and backwards: what was read last is still in the second-level cache. Gates come when all sums of a step are there. */
#ifndef LB_RNN_AVX512VNNI_H
#define LB_RNN_AVX512VNNI_H

#include "rnn/rnn_shared.h"
#include "base/unroll.h"
#include "base/vnni.h"

#include <string.h>

enum { LB_UNITS = 16 };

typedef __m512 lb_reals;
typedef __m512i lb_ints;

/* What a row of the batch has of scratch; `wide` is hidden rounded up to 64. */
typedef struct {
    int8_t *h;   /* `wide` bytes, where the state is not bytes before */
    float *kept; /* `wide` floats (or integers) between the two halves of a step, twice */
    float *scale;
    int32_t *sums; /* of panels: gates x LB_UNITS each */
    uint8_t *form; /* the state, flipped */
    int32_t *less; /* by how much it is too large */
} lb_rnn_row;

static inline lb_rnn_row lb_rnn_row_at(void *scratch, int32_t hidden, int32_t b) {
    const ptrdiff_t wide = ((ptrdiff_t)hidden + 63) / 64 * 64;
    int8_t *at = (int8_t *)scratch + b * 40 * wide;
    return (lb_rnn_row){at,
                        (float *)(void *)(at + 4 * wide),
                        (float *)(void *)(at + wide),
                        (int32_t *)(void *)(at + 12 * wide),
                        (uint8_t *)(at + 28 * wide),
                        (int32_t *)(void *)(at + 2 * wide)};
}

static inline int32_t lb_panels(int32_t hidden) {
    return (hidden + LB_UNITS - 1) / LB_UNITS;
}

/* Bytes of all panels of so many gates, and of the sums of weights that stand before them. */
static inline ptrdiff_t lb_weight_bytes(int32_t hidden, int gates) {
    const ptrdiff_t units = (ptrdiff_t)lb_panels(hidden) * LB_UNITS;
    return gates * units * (4 + units);
}

/* row.form = the state of so many bytes; behind it is what weights of zero meet. */
static inline void lb_rnn_form(const lb_rnn_row *row, const int8_t *state, int32_t hidden, int32_t zero, int gates) {
    (void)gates;
    const __m512i flip = _mm512_set1_epi8(-128);
    *row->less = zero + 128;
    for (int32_t i = 0; i < hidden; i += 64) {
        const __mmask64 there = hidden - i < 64 ? ((__mmask64)1 << (hidden - i)) - 1 : ~(__mmask64)0;
        _mm512_store_si512(row->form + i, _mm512_xor_si512(_mm512_maskz_loadu_epi8(there, state + i), flip));
    }
}

typedef int32_t __attribute__((may_alias)) lb_quad;

/* The sums of a panel and of `rows` rows of the batch, from `b` on. Few of them are added in parts, so that products need not wait. */
LB_INLINE void lb_rnn_tile(const int gates, const int rows, int32_t hidden, const int8_t *w, const int32_t *of_weights, int32_t panel,
                           void *scratch, int32_t b) {
    const int chains = rows * gates >= 8 ? 1 : rows * gates >= 4 ? 2 : 4;
    const ptrdiff_t quads = (ptrdiff_t)lb_panels(hidden) * (LB_UNITS / 4); /* a multiple of four */
    const uint8_t *form[4];
    __m512i c[4][4][4];
    LB_UNROLL
    for (int i = 0; i < rows; i++) {
        const lb_rnn_row row = lb_rnn_row_at(scratch, hidden, b + i);
        const __m512i times = _mm512_set1_epi32(-*row.less);
        form[i] = row.form;
        LB_UNROLL
        for (int g = 0; g < gates; g++) {
            c[i][0][g] = _mm512_mullo_epi32(_mm512_load_si512(of_weights + LB_UNITS * g), times);
            LB_UNROLL
            for (int j = 1; j < chains; j++)
                c[i][j][g] = _mm512_setzero_si512();
        }
    }
    for (ptrdiff_t q = 0; q < quads; q += chains) {
        LB_UNROLL
        for (int j = 0; j < chains; j++, w += gates * 64) {
            __m512i v[4];
            LB_UNROLL
            for (int g = 0; g < gates; g++)
                v[g] = _mm512_load_si512(w + 64 * g);
            LB_UNROLL
            for (int i = 0; i < rows; i++) {
                const __m512i x = _mm512_set1_epi32(*(const lb_quad *)(const void *)(form[i] + 4 * (q + j)));
                LB_UNROLL
                for (int g = 0; g < gates; g++)
                    c[i][j][g] = lb_dpbusd512(c[i][j][g], x, v[g]);
            }
        }
    }
    LB_UNROLL
    for (int i = 0; i < rows; i++) {
        int32_t *sums = lb_rnn_row_at(scratch, hidden, b + i).sums + panel * gates * LB_UNITS;
        LB_UNROLL
        for (int g = 0; g < gates; g++) {
            LB_UNROLL
            for (int j = 1; j < chains; j++)
                c[i][0][g] = _mm512_add_epi32(c[i][0][g], c[i][j][g]);
            _mm512_store_si512(sums + LB_UNITS * g, c[i][0][g]);
        }
    }
}

/* The sums of an item's units and all rows of the batch. `weights` are those of the direction. */
LB_INLINE void lb_rnn_products(const int gates, const lb_lstm_s8_params *p, const char *weights, const lb_units *u, int32_t step,
                               void *scratch) {
    const ptrdiff_t units = (ptrdiff_t)lb_panels(p->hidden) * LB_UNITS, bytes = gates * LB_UNITS * units;
    const int32_t first = u->first / LB_UNITS, count = (u->last + LB_UNITS - 1) / LB_UNITS - first;
    for (int32_t turn = 0; turn < count; turn++) {
        const int32_t panel = step % 2 ? first + count - 1 - turn : first + turn;
        const int32_t *of_weights = (const int32_t *)(const void *)weights + (ptrdiff_t)panel * gates * LB_UNITS;
        const int8_t *w = (const int8_t *)weights + 4 * gates * units + panel * bytes;
        int32_t b = 0;
        for (; b + 4 <= p->batch; b += 4)
            lb_rnn_tile(gates, 4, p->hidden, w, of_weights, panel, scratch, b);
        if (b + 2 <= p->batch) {
            lb_rnn_tile(gates, 2, p->hidden, w, of_weights, panel, scratch, b);
            b += 2;
        }
        if (b < p->batch)
            lb_rnn_tile(gates, 1, p->hidden, w, of_weights, panel, scratch, b);
    }
}

/* Neighbouring units, of which the first `count` exist. */
typedef struct {
    ptrdiff_t first; /* among the units of its direction */
    int32_t count;   /* 1 ... LB_UNITS */
    __mmask16 mask;
} lb_lanes;

/* For loops over whole vectors: the compiler knows the count, and takes plain loads and stores. */
LB_INLINE lb_lanes lb_all_lanes(ptrdiff_t first) {
    return (lb_lanes){first, LB_UNITS, 0xFFFF};
}

static inline lb_lanes lb_lanes_at(ptrdiff_t first, int32_t hidden) {
    const int32_t count = hidden - (int32_t)first < LB_UNITS ? hidden - (int32_t)first : LB_UNITS;
    return (lb_lanes){first, count, (__mmask16)((1u << count) - 1)};
}

LB_INLINE __m512 lb_read(const lb_lanes *u, const float *from) {
    return u->count == LB_UNITS ? _mm512_loadu_ps(from + u->first) : _mm512_maskz_loadu_ps(u->mask, from + u->first);
}

LB_INLINE void lb_write(const lb_lanes *u, float *to, __m512 v) {
    if (u->count == LB_UNITS)
        _mm512_storeu_ps(to + u->first, v);
    else
        _mm512_mask_storeu_ps(to + u->first, u->mask, v);
}

LB_INLINE __m512i lb_read_words(const lb_lanes *u, const int16_t *from) {
    if (u->count == LB_UNITS)
        return _mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(from + u->first)));
    return _mm512_cvtepi16_epi32(_mm512_castsi512_si256(_mm512_maskz_loadu_epi16(u->mask, from + u->first)));
}

LB_INLINE __m512i lb_read_bytes(const lb_lanes *u, const int8_t *from) {
    if (u->count == LB_UNITS)
        return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(from + u->first)));
    return _mm512_cvtepi8_epi32(_mm512_castsi512_si128(_mm512_maskz_loadu_epi8(u->mask, from + u->first)));
}

/* Integers within int16. */
LB_INLINE void lb_write_words(const lb_lanes *u, int16_t *to, __m512i v) {
    const __m256i words = _mm512_cvtsepi32_epi16(v);
    if (u->count == LB_UNITS)
        _mm256_storeu_si256((__m256i *)(void *)(to + u->first), words);
    else
        _mm512_mask_storeu_epi16(to + u->first, u->mask, _mm512_castsi256_si512(words));
}

/* Integers within int8. */
LB_INLINE void lb_write_bytes(const lb_lanes *u, int8_t *to, __m512i v) {
    const __m128i bytes = _mm512_cvtsepi32_epi8(v);
    if (u->count == LB_UNITS)
        _mm_storeu_si128((__m128i *)(void *)(to + u->first), bytes);
    else
        _mm512_mask_storeu_epi8(to + u->first, u->mask, _mm512_castsi128_si512(bytes));
}

#define LB_RNN_OP(name) _mm512_##name
#define lb_reals_size(v) _mm512_abs_ps(v)
#define lb_reals_as_ints(v) _mm512_castps_si512(v) /* the same bits */
#define lb_ints_as_reals(v) _mm512_castsi512_ps(v)

#include "rnn/rnn_words.h"

/* fl32(sum) * scale for one of the `gates` of panels. */
LB_INLINE __m512 lb_scaled(const lb_lanes *u, const int32_t *sums, int gates, int gate, __m512 scale) {
    const ptrdiff_t at = u->first * gates + gate * LB_UNITS;
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_load_si512(sums + at)), scale);
}

/* lb_round_clamp without the sum: limits are those less the zero point. */
LB_INLINE __m512i lb_round_lanes(__m512 v, __m512 lo, __m512 hi) {
    v = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(v, v, _CMP_ORD_Q), v);
    return _mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(v, lo), hi));
}

/* lb_tanh16. */
LB_INLINE __m512i lb_tanh16_lanes(__m512i g, const int16_t *table) {
    const __m512i at = _mm512_add_epi32(g, _mm512_set1_epi32(32768)), part = _mm512_and_si512(at, _mm512_set1_epi32(127));
    const __m512i weights = _mm512_or_si512(_mm512_slli_epi32(part, 16), _mm512_sub_epi32(_mm512_set1_epi32(128), part));
    const __m512i nodes = _mm512_i32gather_epi32(_mm512_srli_epi32(at, 7), table, 2); /* two neighbours each */
    return _mm512_srai_epi32(_mm512_add_epi32(_mm512_madd_epi16(nodes, weights), _mm512_set1_epi32(64)), 7);
}

/* lb_sigmoid_real, from the entry of the table. */
LB_INLINE __m512 lb_sigmoid_reals(__m512i tanh) {
    const __mmask16 open = _mm512_cmpeq_epi32_mask(tanh, _mm512_set1_epi32(32767));
    const __m512i above = _mm512_add_epi32(tanh, _mm512_mask_blend_epi32(open, _mm512_set1_epi32(32768), _mm512_set1_epi32(32769)));
    return _mm512_mul_ps(_mm512_cvtepi32_ps(above), _mm512_set1_ps(0x1p-16f));
}

#include "rnn/rnn_gates.h"

#endif
