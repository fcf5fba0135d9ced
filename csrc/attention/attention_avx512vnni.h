/* attention_s8 on AVX-512-VNNI: four rows of queries at a time against all keys, then the product of their probabilities, in three limbs
 * of eight bits, with the values. Keys and values of a head are packed in quads, 16 columns a panel, once for all rows that a call has of
 * it. Queries are flipped (x + 128), so that with z = q_zero + 128 a sum is that of products, less z * (sum of the key), less
 * k_zero * (sum of the query - z). A limb is at most 255 and a value at least -128: sums of 8192 keys fit 32 bits. */
#ifndef LB_ATTENTION_AVX512VNNI_H
#define LB_ATTENTION_AVX512VNNI_H

#include "attention/attention_shared.h"
#include "base/store_avx512.h"
#include "base/unroll.h"
#include "base/vnni.h"

#include <string.h>

enum { LB_QUERIES = 4, LB_LIMBS = 3 };

typedef struct {
    int8_t *keys, *values; /* panels */
    int32_t *starts;       /* of the sums of each key */
    uint8_t *rows;         /* queries */
    uint8_t *p;            /* three rows for each of them: the limbs of the probabilities */
    float *u;              /* rows of scores */
} lb_attention_buffers;

typedef int32_t __attribute__((may_alias)) lb_quad;

LB_INLINE __m512i lb_quad_at(const uint8_t *a) {
    return _mm512_set1_epi32(*(const lb_quad *)(const void *)a);
}

static inline ptrdiff_t lb_up(ptrdiff_t v, ptrdiff_t to) {
    return (v + to - 1) / to * to;
}

/* Up to 16 bytes; missing ones are 0. */
LB_INLINE __m128i lb_few_bytes(const int8_t *from, ptrdiff_t count) {
    return count >= 16 ? _mm_loadu_si128((const __m128i *)(const void *)from)
                       : _mm512_castsi512_si128(_mm512_maskz_loadu_epi8(((__mmask64)1 << count) - 1, from));
}

/* Keys, which are rows in memory: `n` of `k` bytes. Missing bytes are 0. Also the initial sum of each key. */
static inline void lb_pack_keys(const int8_t *from, ptrdiff_t stride, ptrdiff_t n, ptrdiff_t k, int32_t q_zero, int8_t *to,
                                int32_t *starts) {
    const ptrdiff_t depth = lb_up(k, 4);
    if (n % 16)
        memset(to, 0, (size_t)(lb_up(n, 16) * depth));
    for (ptrdiff_t j = 0; j < n; j += 4, from += 4 * stride) {
        int8_t *column = to + j / 16 * 16 * depth + j % 16 * 4;
        for (ptrdiff_t i = 0; i < depth; i += 16) {
            __m128i v[4];
            for (ptrdiff_t r = 0; r < 4; r++)
                v[r] = j + r < n ? lb_few_bytes(from + r * stride + i, k - i) : _mm_setzero_si128();
            const __m128i a = _mm_unpacklo_epi32(v[0], v[1]), b = _mm_unpackhi_epi32(v[0], v[1]);
            const __m128i c = _mm_unpacklo_epi32(v[2], v[3]), d = _mm_unpackhi_epi32(v[2], v[3]);
            const __m128i quads[4] = {_mm_unpacklo_epi64(a, c), _mm_unpackhi_epi64(a, c), _mm_unpacklo_epi64(b, d),
                                      _mm_unpackhi_epi64(b, d)};
            for (ptrdiff_t r = 0; r < 4 && i + 4 * r < depth; r++)
                _mm_store_si128((__m128i *)(void *)(column + 16 * i + 64 * r), quads[r]);
        }
    }
    const __m512i ones = _mm512_set1_epi8(1), times = _mm512_set1_epi32(-(q_zero + 128));
    for (ptrdiff_t j = 0; j < n; j += 16) {
        __m512i sum = _mm512_setzero_si512();
        for (ptrdiff_t i = 0; i < depth; i += 4, to += 64)
            sum = lb_dpbusd512(sum, ones, _mm512_load_si512(to));
        _mm512_store_si512(starts + j, _mm512_mullo_epi32(sum, times));
    }
}

/* Values as they stand: `k` rows of `n` bytes. */
static inline void lb_pack_values(const int8_t *from, ptrdiff_t stride, ptrdiff_t n, ptrdiff_t k, int8_t *to) {
    for (ptrdiff_t j = 0; j < n; j += 16)
        for (ptrdiff_t i = 0; i < k; i += 4, to += 64) {
            __m128i v[4];
            for (ptrdiff_t r = 0; r < 4; r++)
                v[r] = i + r < k ? lb_few_bytes(from + (i + r) * stride + j, n - j) : _mm_setzero_si128();
            const __m128i a = _mm_unpacklo_epi8(v[0], v[1]), b = _mm_unpackhi_epi8(v[0], v[1]);
            const __m128i c = _mm_unpacklo_epi8(v[2], v[3]), d = _mm_unpackhi_epi8(v[2], v[3]);
            __m128i *out = (__m128i *)(void *)to;
            _mm_store_si128(out, _mm_unpacklo_epi16(a, c)), _mm_store_si128(out + 1, _mm_unpackhi_epi16(a, c));
            _mm_store_si128(out + 2, _mm_unpacklo_epi16(b, d)), _mm_store_si128(out + 3, _mm_unpackhi_epi16(b, d));
        }
}

/* Queries with flipped sign bits, and the correction of each query's sums for the zero point of the keys. Missing rows repeat the last. */
static inline void lb_take_queries(const lb_attention_s8_params *p, const int8_t *from, int32_t rows, uint8_t *to, int32_t *less) {
    const ptrdiff_t depth = lb_up(p->features, 4);
    for (int32_t r = 0; r < LB_QUERIES; r++, to += depth) {
        const int8_t *row = from + (ptrdiff_t)(r < rows ? r : rows - 1) * p->q_stride[2];
        __m512i sum = _mm512_setzero_si512();
        for (ptrdiff_t e = 0; e < p->features; e += 64) {
            const __mmask64 there = p->features - e < 64 ? ((__mmask64)1 << (p->features - e)) - 1 : ~(__mmask64)0;
            const __m512i v = _mm512_maskz_loadu_epi8(there, row + e);
            _mm512_mask_storeu_epi8(to + e, there, _mm512_xor_si512(v, _mm512_set1_epi8(-128)));
            sum = lb_dpbusd512(sum, _mm512_set1_epi8(1), v);
        }
        less[r] = (int32_t)((uint32_t)p->k_zero * ((uint32_t)_mm512_reduce_add_epi32(sum) - (uint32_t)(p->features * p->q_zero)));
    }
}

/* The scores of four rows and `panels` panels of keys without a mask, and the largest of each lane. */
LB_INLINE void lb_scores(const int panels, const lb_attention_s8_params *p, const lb_attention_buffers *s, ptrdiff_t first,
                         const int32_t *less, __m512 *top) {
    const ptrdiff_t depth = lb_up(p->features, 4), wide = lb_up(p->keys, 16);
    const int8_t *w = s->keys + first * depth;
    __m512i c[LB_QUERIES][4];
    LB_UNROLL
    for (int i = 0; i < LB_QUERIES; i++) {
        LB_UNROLL
        for (int j = 0; j < panels; j++)
            c[i][j] = _mm512_sub_epi32(_mm512_load_si512(s->starts + first + 16 * j), _mm512_set1_epi32(less[i]));
    }
    for (const uint8_t *a = s->rows, *end = a + depth; a < end; a += 4, w += 64) {
        __m512i v[4];
        LB_UNROLL
        for (int j = 0; j < panels; j++)
            v[j] = _mm512_load_si512(w + 16 * depth * j);
        LB_UNROLL
        for (int i = 0; i < LB_QUERIES; i++) {
            const __m512i x = lb_quad_at(a + depth * i);
            LB_UNROLL
            for (int j = 0; j < panels; j++)
                c[i][j] = lb_dpbusd512(c[i][j], x, v[j]);
        }
    }
    const __m512 scale = _mm512_set1_ps(p->score_scale);
    LB_UNROLL
    for (int i = 0; i < LB_QUERIES; i++) {
        LB_UNROLL
        for (int j = 0; j < panels; j++) {
            const __m512 u = _mm512_mul_ps(_mm512_cvtepi32_ps(c[i][j]), scale);
            _mm512_store_ps(s->u + i * wide + first + 16 * j, u);
            top[i] = _mm512_max_ps(u, top[i]);
        }
    }
}

/* The mask, from `at` on, of 16 scores, of which `count` are there; others become -inf. */
LB_INLINE __m512 lb_masked16(const lb_attention_s8_params *p, const void *mask, ptrdiff_t at, ptrdiff_t count, __m512 u) {
    const __mmask16 there = lb_first16(count);
    const __m512 none = _mm512_set1_ps(LB_MINUS_INFINITY);
    if (p->mask_bytes == 4) {
        const float *m = (const float *)mask + at;
        u = _mm512_add_ps(u, p->mask_stride[3] ? _mm512_maskz_loadu_ps(there, m) : _mm512_set1_ps(*m));
    } else if (p->mask_bytes == 1) {
        const int8_t *m = (const int8_t *)mask + at;
        const __m128i bytes = p->mask_stride[3] ? lb_few_bytes(m, count) : _mm_set1_epi8((char)*m);
        u = _mm512_mask_mov_ps(none, (__mmask16)~_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_setzero_si128())), u);
    }
    return _mm512_mask_mov_ps(none, there, u);
}

/* Scores of a row from `first` to `end` with mask, those after `keys` -inf; and the largest of each lane. */
static inline __m512 lb_mask_scores(const lb_attention_s8_params *p, const void *mask, ptrdiff_t at, ptrdiff_t first, ptrdiff_t end,
                                    ptrdiff_t keys, float *u, __m512 top) {
    for (ptrdiff_t j = first; j < end; j += 16) {
        __m512 v = _mm512_set1_ps(LB_MINUS_INFINITY);
        if (j < keys)
            v = lb_masked16(p, mask, at + j * p->mask_stride[3], keys - j, _mm512_load_ps(u + j));
        _mm512_store_ps(u + j, v);
        top = _mm512_max_ps(v, top); /* the second one, where the first is NaN */
    }
    return top;
}

static inline float lb_largest16(__m512 v) {
    float each[16], largest;
    _mm512_storeu_ps(each, v);
    __m128 m =
        _mm_max_ps(_mm_max_ps(_mm_loadu_ps(each), _mm_loadu_ps(each + 4)), _mm_max_ps(_mm_loadu_ps(each + 8), _mm_loadu_ps(each + 12)));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    m = _mm_max_ss(m, _mm_movehdup_ps(m));
    _mm_store_ss(&largest, m);
    return largest;
}

/* rne(2^20 * lb_exp(x)) for x <= 0 or NaN. The steps of lb_exp, but: the exponent is rounded by adding 1.5 * 2^23, in whose last bits it
 * then stands with the 20 of 2^20; n * ln 2's first part is exact, so that it is subtracted in the step that multiplies; what is outside
 * goes through all steps and is left out of the last. */
LB_INLINE __m512i lb_share16(__m512 x) {
    const __m512 whole = _mm512_set1_ps(12582912.0f + 20.0f);
    const __m512 shifted = _mm512_add_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269502f)), whole), n = _mm512_sub_ps(shifted, whole);
    const __m512 r = _mm512_sub_ps(_mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x), _mm512_mul_ps(n, _mm512_set1_ps(-2.12194440e-4f)));
    __m512 p = _mm512_set1_ps(1.98756912e-4f);
    p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(1.39819994e-3f));
    p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(8.33345205e-3f));
    p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(4.16657962e-2f));
    p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(1.66666657e-1f));
    p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(0.5f));
    const __m512 e = _mm512_add_ps(_mm512_add_ps(_mm512_mul_ps(p, _mm512_mul_ps(r, r)), r), _mm512_set1_ps(1.0f));
    const __m512i y = _mm512_add_epi32(_mm512_castps_si512(e), _mm512_slli_epi32(_mm512_castps_si512(shifted), 23));
    const __mmask16 inside = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.0f), _CMP_GE_OQ);
    return _mm512_cvtps_epi32(_mm512_castsi512_ps(_mm512_maskz_mov_epi32(inside, y)));
}

/* The probabilities of a row of scores in three rows of bytes, `stride` apart, up to `end`, a multiple of 16. Gives their sum, for up to
 * 2^14 keys. */
static inline int64_t lb_limbs(const float *u, float top, uint8_t *out, ptrdiff_t stride, ptrdiff_t end) {
    const __m512 best = _mm512_set1_ps(top);
    const __m512i order = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    __m512i total = _mm512_setzero_si512();
    for (ptrdiff_t j = 0; j < end; j += 16) {
        const __m512i share = lb_share16(_mm512_sub_ps(_mm512_load_ps(u + j), best));
        const __m512i bytes = lb_in_order(_mm512_shuffle_epi8(share, order));
        total = _mm512_add_epi32(total, share);
        _mm_store_si128((__m128i *)(void *)(out + j), _mm512_castsi512_si128(bytes));
        _mm_store_si128((__m128i *)(void *)(out + stride + j), _mm512_extracti32x4_epi32(bytes, 1));
        _mm_store_si128((__m128i *)(void *)(out + 2 * stride + j), _mm512_extracti32x4_epi32(bytes, 2));
    }
    int32_t parts[16];
    int64_t sum = 0;
    _mm512_storeu_si512(parts, total);
    for (int i = 0; i < 16; i++)
        sum += parts[i];
    return sum;
}

/* sums (queries x limbs x panels) = the rows of limbs, `stride` apart, times the panels of values, `panel` bytes apart. */
LB_INLINE void lb_of_values(const int panels, const uint8_t *a, ptrdiff_t stride, const int8_t *w, ptrdiff_t panel, ptrdiff_t quads,
                            __m512i sums[LB_QUERIES][LB_LIMBS][2]) {
    __m512i c[LB_QUERIES][LB_LIMBS][2];
    LB_UNROLL
    for (int r = 0; r < LB_QUERIES; r++) {
        LB_UNROLL
        for (int i = 0; i < LB_LIMBS; i++)
            c[r][i][0] = c[r][i][1] = _mm512_setzero_si512();
    }
    for (const uint8_t *end = a + 4 * quads; a < end; a += 4, w += 64) {
        const __m512i v = _mm512_load_si512(w), v1 = panels > 1 ? _mm512_load_si512(w + panel) : v;
        LB_UNROLL
        for (int r = 0; r < LB_QUERIES; r++) {
            LB_UNROLL
            for (int i = 0; i < LB_LIMBS; i++) {
                const __m512i x = lb_quad_at(a + (LB_LIMBS * r + i) * stride);
                c[r][i][0] = lb_dpbusd512(c[r][i][0], x, v);
                if (panels > 1)
                    c[r][i][1] = lb_dpbusd512(c[r][i][1], x, v1);
            }
        }
    }
    LB_UNROLL
    for (int r = 0; r < LB_QUERIES; r++) {
        LB_UNROLL
        for (int i = 0; i < LB_LIMBS; i++)
            sums[r][i][0] = c[r][i][0], sums[r][i][1] = c[r][i][1];
    }
}

/* fl32 of eight sums of limbs, minus the share of the zero point. */
LB_INLINE __m256 lb_of_limbs(__m256i a, __m256i b, __m256i c, __m512i less) {
    const __m512i upper = _mm512_add_epi64(_mm512_slli_epi64(_mm512_cvtepi32_epi64(b), 8), _mm512_slli_epi64(_mm512_cvtepi32_epi64(c), 16));
    return _mm512_cvtepi64_ps(_mm512_sub_epi64(_mm512_add_epi64(_mm512_cvtepi32_epi64(a), upper), less));
}

/* Up to four rows of queries. */
static void lb_attention_rows(const lb_attention_s8_params *p, const lb_attention_buffers *s, const lb_attention_block *b, int32_t row,
                              int32_t rows, const int8_t *q, const void *mask, void *out) {
    const ptrdiff_t wide = lb_up(p->keys, 16), across = lb_up(p->keys, 4);
    const int32_t most = lb_attention_keys(p, row + rows - 1);
    const ptrdiff_t end = lb_up(most, 16), plain = p->mask_bytes ? 0 : lb_attention_keys(p, row) / 64 * 64;
    int32_t less[LB_QUERIES];
    __m512 top[LB_QUERIES], unused[LB_QUERIES];
    lb_take_queries(p, q + b->q + (ptrdiff_t)row * p->q_stride[2], rows, s->rows, less);
    for (int32_t r = 0; r < LB_QUERIES; r++)
        top[r] = unused[r] = _mm512_set1_ps(LB_MINUS_INFINITY);
    ptrdiff_t j = 0;
    for (; j + 64 <= end; j += 64)
        lb_scores(4, p, s, j, less, j < plain ? top : unused);
    if (j + 32 <= end) {
        lb_scores(2, p, s, j, less, unused);
        j += 32;
    }
    if (j < end)
        lb_scores(1, p, s, j, less, unused);
    float factor[LB_QUERIES];
    int64_t zero[LB_QUERIES];
    for (int32_t r = 0; r < rows; r++) {
        float *u = s->u + r * wide;
        const ptrdiff_t mask_at = b->mask + (ptrdiff_t)(row + r) * p->mask_stride[2];
        top[r] = lb_mask_scores(p, mask, mask_at, plain, end, lb_attention_keys(p, row + r), u, top[r]);
        const int64_t total = lb_limbs(u, lb_largest16(top[r]), s->p + LB_LIMBS * r * wide, wide, end);
        factor[r] = lb_attention_factor(p, total), zero[r] = total * p->v_zero;
    }
    const lb_target16 target = lb_target16_of(p->out_bytes, p->y_zero, p->lo, p->hi);
    for (int32_t f = 0; f < p->values; f += 32) {
        __m512i sums[LB_QUERIES][LB_LIMBS][2];
        const int panels = p->values - f > 16 ? 2 : 1;
        if (panels > 1)
            lb_of_values(2, s->p, wide, s->values + f * across, 16 * across, (most + 3) / 4, sums);
        else
            lb_of_values(1, s->p, wide, s->values + f * across, 16 * across, (most + 3) / 4, sums);
        for (int32_t r = 0; r < rows; r++) {
            const __m512 m = _mm512_set1_ps(factor[r]);
            const __m512i off = _mm512_set1_epi64(zero[r]);
            const ptrdiff_t at = b->out + (ptrdiff_t)(row + r) * p->out_stride[2] + f;
            for (int i = 0; i < panels; i++) {
                const __m512i low_limb = sums[r][0][i], middle = sums[r][1][i], high_limb = sums[r][2][i];
                const __m256 low =
                    lb_of_limbs(_mm512_castsi512_si256(low_limb), _mm512_castsi512_si256(middle), _mm512_castsi512_si256(high_limb), off);
                const __m256 high = lb_of_limbs(_mm512_extracti64x4_epi64(low_limb, 1), _mm512_extracti64x4_epi64(middle, 1),
                                                _mm512_extracti64x4_epi64(high_limb, 1), off);
                lb_put16(out, at + 16 * i, _mm512_mul_ps(_mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1), m),
                         p->values - f - 16 * i, &target);
            }
        }
    }
}

static inline void lb_attention_avx512vnni(const lb_attention_s8_params *p, const int8_t *q, const int8_t *k, const int8_t *v,
                                           const void *mask, void *out, void *scratch, int32_t begin, int32_t end) {
    const ptrdiff_t wide = lb_up(p->keys, 16), depth = lb_up(p->features, 16), across = lb_up(p->values, 16);
    lb_attention_buffers s = {.u = scratch};
    s.starts = (int32_t *)(void *)(s.u + LB_QUERIES * wide);
    s.keys = (int8_t *)(s.starts + wide);
    s.values = s.keys + wide * depth;
    s.p = (uint8_t *)s.values + wide * across;
    s.rows = s.p + LB_QUERIES * LB_LIMBS * wide;
    int32_t head = -1; /* whose keys and values are packed */
    for (int32_t item = begin; item < end; item++) {
        const lb_attention_block b = lb_attention_item(p, item);
        if (b.head != head) {
            lb_pack_keys(k + b.k, p->k_stride[2], p->keys, p->features, p->q_zero, s.keys, s.starts);
            lb_pack_values(v + b.v, p->v_stride[2], p->values, p->keys, s.values);
            head = b.head;
        }
        for (int32_t row = b.top; row < b.bottom; row += LB_QUERIES)
            lb_attention_rows(p, &s, &b, row, b.bottom - row < LB_QUERIES ? b.bottom - row : LB_QUERIES, q, mask, out);
    }
}

#endif
