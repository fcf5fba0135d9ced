/* Six rows of queries at a time: scores against all keys, probabilities in two limbs of 10 bits, the product of those with the values.
 * Keys and values of a head are packed once for all rows that a call has of it. A limb is at most 1024 and a value less its zero point
 * at most 255: sums of 8192 keys fit 32 bits. */
#include "attention/attention_avx2.h"

lb_attention_s8_fn lb_attention_s8__avx2;

enum { ROWS = 6 };

typedef struct {
    int16_t *keys, *values; /* panels */
    int16_t *rows;          /* six queries */
    int16_t *p;             /* six times two rows: the limbs of the probabilities */
    float *u;               /* six rows of scores */
} buffers;

static void some_rows(const lb_attention_s8_params *p, const buffers *s, const lb_attention_block *b, int32_t row, int32_t rows,
                      const int8_t *q, const void *mask, void *out) {
    const ptrdiff_t wide = lb_up(p->keys, 16), depth = lb_up(p->features, 16);
    const int32_t most = lb_attention_keys(p, row + rows - 1);
    for (int32_t r = 0; r < rows; r++)
        lb_widen_row(q + b->q + (ptrdiff_t)(row + r) * p->q_stride[2], p->features, depth, p->q_zero, s->rows + r * depth);
    for (int32_t j = 0; j < most; j += 16)
        lb_words(rows, s->rows, depth, s->keys + j * depth, depth / 2, (int32_t *)(void *)(s->u + j), wide, 0);
    float factor[ROWS];
    const __m256 scale = _mm256_set1_ps(p->score_scale);
    for (int32_t r = 0; r < rows; r++) {
        const int32_t keys = lb_attention_keys(p, row + r);
        float *u = s->u + r * wide;
        for (int32_t j = 0; j < keys; j += 8) {
            const __m256i acc = _mm256_load_si256((const __m256i *)(const void *)(u + j));
            _mm256_store_ps(u + j, _mm256_mul_ps(_mm256_cvtepi32_ps(acc), scale));
        }
        const float top = lb_mask_row(p, mask, b->mask + (ptrdiff_t)(row + r) * p->mask_stride[2], keys, u);
        factor[r] = lb_attention_factor(p, lb_probabilities(u, keys, top, s->p + 2 * r * wide, wide, lb_up(most, 16)));
    }
    const lb_target target = lb_target_of(p->out_bytes, p->y_zero, p->lo, p->hi);
    for (int32_t f = 0; f < p->values; f += 16) {
        _Alignas(32) int32_t sums[2 * ROWS * 16];
        lb_words(2 * rows, s->p, wide, s->values + f * lb_up(p->keys, 2), (most + 1) / 2, sums, 16, 0);
        for (int32_t r = 0; r < rows; r++) {
            const __m256 m = _mm256_set1_ps(factor[r]);
            const ptrdiff_t at = b->out + (ptrdiff_t)(row + r) * p->out_stride[2] + f;
            const int32_t left = p->values - f;
            const __m256i *high = (const __m256i *)(const void *)(sums + 32 * r), *low = high + 2;
            lb_put8(out, at, _mm256_mul_ps(lb_joined8(high[0], 1 << LB_LIMB, low[0]), m), left, &target);
            if (left > 8)
                lb_put8(out, at + 8, _mm256_mul_ps(lb_joined8(high[1], 1 << LB_LIMB, low[1]), m), left - 8, &target);
        }
    }
}

void lb_attention_s8__avx2(const lb_attention_s8_params *p, const int8_t *q, const int8_t *k, const int8_t *v, const void *mask, void *out,
                           void *scratch, int32_t begin, int32_t end) {
    const ptrdiff_t wide = lb_up(p->keys, 16), depth = lb_up(p->features, 16), across = lb_up(p->values, 16);
    buffers s = {.u = scratch};
    s.keys = (int16_t *)(void *)(s.u + ROWS * wide);
    s.values = s.keys + wide * depth;
    s.rows = s.values + wide * across;
    s.p = s.rows + ROWS * depth;
    int32_t head = -1; /* whose keys and values are packed */
    for (int32_t item = begin; item < end; item++) {
        const lb_attention_block b = lb_attention_item(p, item);
        if (b.head != head) {
            lb_pack_columns_s8(k + b.k, p->k_stride[2], p->keys, p->features, p->k_zero, s.keys);
            lb_pack_rows_s8(v + b.v, p->v_stride[2], p->values, p->keys, p->v_zero, s.values);
            head = b.head;
        }
        for (int32_t row = b.top; row < b.bottom; row += ROWS)
            some_rows(p, &s, &b, row, b.bottom - row < ROWS ? b.bottom - row : ROWS, q, mask, out);
    }
}
