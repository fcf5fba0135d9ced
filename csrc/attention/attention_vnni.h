/* attention_s8 by vpdpbusd: six rows of queries at a time against all keys, then the product of the probabilities, in three limbs of eight
 * bits, with the values. Keys and values of a head are packed in quads once for all rows that a call has of it. Queries are flipped
 * (x + 128), so that with z = q_zero + 128 a sum is that of products, less z * (sum of the key), less k_zero * (sum of the query - z). A
 * limb is at most 255 and a value at least -128: sums of 8192 keys fit 32 bits. */
#ifndef LB_ATTENTION_VNNI_H
#define LB_ATTENTION_VNNI_H

#include "attention/attention_avx2.h"
#include "linear/dot4/dot4_sums_vnni.h"

enum { LB_QUERIES = 6, LB_LIMBS = 3 };

typedef struct {
    int8_t *keys, *values; /* panels */
    int32_t *starts;       /* of the sums of each key */
    uint8_t *rows;         /* six queries */
    uint8_t *p;            /* three rows for each of them: the limbs of the probabilities */
    float *u;              /* six rows of scores */
} lb_attention_vnni_buffers;

/* Keys, which are rows in memory: `n` of `k` bytes. Missing bytes are 0. */
static inline void lb_pack_keys(const int8_t *from, ptrdiff_t stride, ptrdiff_t n, ptrdiff_t k, int8_t *to) {
    const ptrdiff_t depth = lb_up(k, 4);
    if (n % 16 || k % 4)
        memset(to, 0, (size_t)(lb_up(n, 16) * depth));
    for (ptrdiff_t j = 0; j < n; j++, from += stride) {
        int8_t *column = to + j / 16 * 16 * depth + j % 16 * 4;
        for (ptrdiff_t i = 0; i < k / 4; i++)
            memcpy(column + 64 * i, from + 4 * i, 4);
        for (ptrdiff_t i = k / 4 * 4; i < k; i++)
            column[i / 4 * 64 + i % 4] = from[i];
    }
}

/* Values as they stand: `k` rows of `n` bytes. */
static inline void lb_pack_values(const int8_t *from, ptrdiff_t stride, ptrdiff_t n, ptrdiff_t k, int8_t *to) {
    for (ptrdiff_t j = 0; j < n; j += 16)
        for (ptrdiff_t i = 0; i < k; i += 4, to += 64) {
            __m128i v[4];
            for (ptrdiff_t r = 0; r < 4; r++)
                v[r] = lb_some_bytes(from + (i + r) * stride + j, i + r < k ? n - j : 0, 0);
            const __m128i a = _mm_unpacklo_epi8(v[0], v[1]), b = _mm_unpackhi_epi8(v[0], v[1]);
            const __m128i c = _mm_unpacklo_epi8(v[2], v[3]), d = _mm_unpackhi_epi8(v[2], v[3]);
            __m128i *out = (__m128i *)(void *)to;
            _mm_store_si128(out, _mm_unpacklo_epi16(a, c)), _mm_store_si128(out + 1, _mm_unpackhi_epi16(a, c));
            _mm_store_si128(out + 2, _mm_unpacklo_epi16(b, d)), _mm_store_si128(out + 3, _mm_unpackhi_epi16(b, d));
        }
}

/* The initial sum of each key. */
static inline void lb_key_starts(const lb_attention_s8_params *p, const int8_t *keys, int32_t *starts) {
    const ptrdiff_t depth = lb_up(p->features, 4);
    const uint32_t zero = (uint32_t)(p->q_zero + 128);
    for (ptrdiff_t j = 0; j < lb_up(p->keys, 16); j++) {
        const int8_t *column = keys + j / 16 * 16 * depth + j % 16 * 4;
        int32_t sum = 0;
        for (ptrdiff_t i = 0; i < depth; i++)
            sum += column[i / 4 * 64 + i % 4];
        starts[j] = (int32_t)(0u - zero * (uint32_t)sum);
    }
}

/* The probabilities of a row of `keys` scores in three rows of bytes, `stride` apart; zeros follow to `end`. Gives their sum, for up to
 * 2^14 keys. */
static inline int64_t lb_limbs(const float *u, int32_t keys, float top, uint8_t *out, ptrdiff_t stride, ptrdiff_t end) {
    const __m256 best = _mm256_set1_ps(top);
    const __m256i order = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, -1, -1, -1, -1));
    __m256i total = _mm256_setzero_si256();
    ptrdiff_t j = 0;
    for (; j < keys; j += 8) {
        const __m256i share = lb_probability8(_mm256_load_ps(u + j), best), bytes = _mm256_shuffle_epi8(share, order);
        const __m128i low = _mm256_castsi256_si128(bytes), high = _mm256_extracti128_si256(bytes, 1);
        const __m128i both = _mm_unpacklo_epi32(low, high);
        total = _mm256_add_epi32(total, share);
        _mm_storel_epi64((__m128i *)(void *)(out + j), both);
        _mm_storel_epi64((__m128i *)(void *)(out + stride + j), _mm_unpackhi_epi64(both, both));
        _mm_storel_epi64((__m128i *)(void *)(out + 2 * stride + j), _mm_unpackhi_epi32(low, high));
    }
    for (int i = 0; i < LB_LIMBS && j < end; i++)
        memset(out + i * stride + j, 0, (size_t)(end - j));
    return lb_sum_s64(total);
}

/* Four sums of limbs, minus the share of the zero point. Doubles hold 53 bits, so that this is exact. */
static inline __m256d lb_of_limbs(const int32_t *sums, ptrdiff_t stride, __m256d less) {
    const __m256d a = _mm256_cvtepi32_pd(_mm_load_si128((const __m128i *)(const void *)sums));
    const __m256d b = _mm256_cvtepi32_pd(_mm_load_si128((const __m128i *)(const void *)(sums + stride)));
    const __m256d c = _mm256_cvtepi32_pd(_mm_load_si128((const __m128i *)(const void *)(sums + 2 * stride)));
    const __m256d upper = _mm256_add_pd(_mm256_mul_pd(b, _mm256_set1_pd(256.0)), _mm256_mul_pd(c, _mm256_set1_pd(65536.0)));
    return _mm256_sub_pd(_mm256_add_pd(a, upper), less);
}

static void lb_attention_vnni_rows(const lb_attention_s8_params *p, const lb_attention_vnni_buffers *s, const lb_attention_block *b,
                                   int32_t row, int32_t rows, const int8_t *q, const void *mask, void *out) {
    const ptrdiff_t wide = lb_up(p->keys, 16), depth = lb_up(p->features, 4), across = lb_up(p->keys, 4);
    const int32_t most = lb_attention_keys(p, row + rows - 1);
    int32_t less[LB_QUERIES]; /* the correction for the zero point of the keys */
    for (int32_t r = 0; r < rows; r++) {
        const int8_t *from = q + b->q + (ptrdiff_t)(row + r) * p->q_stride[2];
        int32_t sum = 0;
        memset(s->rows + r * depth, 0, (size_t)depth);
        for (int32_t e = 0; e < p->features; e++) {
            s->rows[r * depth + e] = (uint8_t)from[e] ^ LB_DOT4_FLIP;
            sum += from[e] - p->q_zero;
        }
        less[r] = (int32_t)((uint32_t)p->k_zero * (uint32_t)sum);
    }
    lb_dot4_panels_into(lb_up(most, 16) / 16, rows, s->rows, depth, s->keys, 16 * depth, depth / 4, s->starts, (int32_t *)(void *)s->u,
                        wide);
    float factor[LB_QUERIES];
    double zero[LB_QUERIES];
    const __m256 scale = _mm256_set1_ps(p->score_scale);
    for (int32_t r = 0; r < rows; r++) {
        const int32_t keys = lb_attention_keys(p, row + r);
        float *u = s->u + r * wide;
        for (int32_t j = 0; j < keys; j += 8) {
            const __m256i acc = _mm256_sub_epi32(_mm256_load_si256((const __m256i *)(const void *)(u + j)), _mm256_set1_epi32(less[r]));
            _mm256_store_ps(u + j, _mm256_mul_ps(_mm256_cvtepi32_ps(acc), scale));
        }
        const float top = lb_mask_row(p, mask, b->mask + (ptrdiff_t)(row + r) * p->mask_stride[2], keys, u);
        const int64_t total = lb_limbs(u, keys, top, s->p + LB_LIMBS * r * wide, wide, lb_up(most, 4));
        factor[r] = lb_attention_factor(p, total), zero[r] = (double)total * p->v_zero;
    }
    const lb_target target = lb_target_of(p->out_bytes, p->y_zero, p->lo, p->hi);
    for (int32_t f = 0; f < p->values; f += 16) {
        _Alignas(64) int32_t sums[LB_LIMBS * LB_QUERIES * 16];
        memset(sums, 0, sizeof sums);
        lb_dot4_panels_into(1, LB_LIMBS * rows, s->p, wide, s->values + f * across, 0, (most + 3) / 4, NULL, sums, 16);
        for (int32_t r = 0; r < rows; r++) {
            const __m256 m = _mm256_set1_ps(factor[r]);
            const __m256d off = _mm256_set1_pd(zero[r]);
            const ptrdiff_t at = b->out + (ptrdiff_t)(row + r) * p->out_stride[2] + f;
            const int32_t left = p->values - f, *own = sums + LB_LIMBS * 16 * r;
            for (int32_t i = 0; i < 16 && i < left; i += 8) {
                const __m128 low = _mm256_cvtpd_ps(lb_of_limbs(own + i, 16, off)),
                             high = _mm256_cvtpd_ps(lb_of_limbs(own + i + 4, 16, off));
                lb_put8(out, at + i, _mm256_mul_ps(_mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1), m), left - i, &target);
            }
        }
    }
}

static inline void lb_attention_vnni(const lb_attention_s8_params *p, const int8_t *q, const int8_t *k, const int8_t *v, const void *mask,
                                     void *out, void *scratch, int32_t begin, int32_t end) {
    const ptrdiff_t wide = lb_up(p->keys, 16), depth = lb_up(p->features, 16), across = lb_up(p->values, 16);
    lb_attention_vnni_buffers s = {.u = scratch};
    s.starts = (int32_t *)(void *)(s.u + LB_QUERIES * wide);
    s.keys = (int8_t *)(s.starts + wide);
    s.values = s.keys + wide * depth;
    s.p = (uint8_t *)s.values + wide * across;
    s.rows = s.p + LB_LIMBS * LB_QUERIES * wide;
    int32_t head = -1; /* whose keys and values are packed */
    for (int32_t item = begin; item < end; item++) {
        const lb_attention_block b = lb_attention_item(p, item);
        if (b.head != head) {
            lb_pack_keys(k + b.k, p->k_stride[2], p->keys, p->features, s.keys);
            lb_key_starts(p, s.keys, s.starts);
            lb_pack_values(v + b.v, p->v_stride[2], p->values, p->keys, s.values);
            head = b.head;
        }
        for (int32_t row = b.top; row < b.bottom; row += LB_QUERIES)
            lb_attention_vnni_rows(p, &s, &b, row, b.bottom - row < LB_QUERIES ? b.bottom - row : LB_QUERIES, q, mask, out);
    }
}

#endif
