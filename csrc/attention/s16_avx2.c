/* As attention_s8, with keys in two planes, k = low + 256 * high, so that products of two are at most 2^23 and sums of 256 pairs fit 32
 * bits; and with the limbs of the probabilities, at most 1024, against values of 16 bits: products of two are at most 2^26, and sums of
 * 30 pairs go to doubles, which are exact up to 2^53. Zero points other than 0 and more than 512 features take the portable way. */
#include "attention/attention_avx2.h"

lb_attention_s16_fn lb_attention_s16__avx2;

enum { ROWS = 6, MOST_FEATURES = 512, CHUNK = 30 };

typedef struct {
    int16_t *low, *high, *values; /* panels */
    int16_t *rows;                /* six queries */
    int16_t *p;                   /* six times two rows: the limbs of the probabilities */
    float *u, *more;              /* six rows of scores, and their high planes */
} buffers;

static inline __m256i some_words(const int16_t *from, ptrdiff_t count) {
    if (count >= 16)
        return _mm256_loadu_si256((const __m256i *)(const void *)from);
    int16_t words[16] = {0};
    if (count > 0)
        memcpy(words, from, 2 * (size_t)count);
    return _mm256_loadu_si256((const __m256i *)(const void *)words);
}

/* Panels of keys, which are rows in memory: two planes. */
static void pack_keys(const int16_t *from, ptrdiff_t stride, ptrdiff_t n, ptrdiff_t k, int16_t *low, int16_t *high) {
    const ptrdiff_t depth = lb_up(k, 16);
    for (ptrdiff_t j = 0; j < lb_up(n, 16); j += 8)
        for (ptrdiff_t i = 0; i < depth; i += 16) {
            const ptrdiff_t at = j / 16 * 16 * depth + j % 16 * 2 + i / 2 * 32;
            __m256i a[8], b[8];
            for (ptrdiff_t r = 0; r < 8; r++) {
                const __m256i v = j + r < n ? some_words(from + (j + r) * stride + i, k - i) : _mm256_setzero_si256();
                a[r] = _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8);
                b[r] = _mm256_sub_epi16(_mm256_srai_epi16(v, 8), _mm256_srai_epi16(a[r], 15));
            }
            lb_transpose8(a);
            lb_transpose8(b);
            for (ptrdiff_t r = 0; r < 8; r++) {
                _mm256_store_si256((__m256i *)(void *)(low + at + 32 * r), a[r]);
                _mm256_store_si256((__m256i *)(void *)(high + at + 32 * r), b[r]);
            }
        }
}

static void pack_values(const int16_t *from, ptrdiff_t stride, ptrdiff_t n, ptrdiff_t k, int16_t *to) {
    for (ptrdiff_t j = 0; j < n; j += 16) {
        int16_t *panel = to + j * lb_up(k, 2);
        for (ptrdiff_t i = 0; i < k; i += 2) {
            const __m256i u = some_words(from + i * stride + j, n - j);
            const __m256i v = i + 1 < k ? some_words(from + (i + 1) * stride + j, n - j) : _mm256_setzero_si256();
            const __m256i low = _mm256_unpacklo_epi16(u, v), high = _mm256_unpackhi_epi16(u, v);
            _mm256_store_si256((__m256i *)(void *)(panel + i * 16), _mm256_permute2x128_si256(low, high, 0x20));
            _mm256_store_si256((__m256i *)(void *)(panel + i * 16 + 16), _mm256_permute2x128_si256(low, high, 0x31));
        }
    }
}

/* fl32 of sums over `keys` keys of the two limbs of some rows and a panel of values, rows x 16. */
static void weigh(const buffers *s, ptrdiff_t wide, int32_t rows, const int16_t *panel, int32_t keys, float *out) {
    _Alignas(32) int32_t sums[2 * ROWS * 16];
    _Alignas(32) double total[ROWS * 16] = {0};
    const int32_t pairs = (keys + 1) / 2;
    for (int32_t at = 0; at < pairs; at += CHUNK) {
        const int32_t count = pairs - at < CHUNK ? pairs - at : CHUNK;
        lb_words(2 * rows, s->p + 2 * at, wide, panel + 32 * at, count, sums, 16, 0);
        for (int32_t r = 0; r < rows; r++)
            for (int i = 0; i < 16; i += 4) {
                const __m256d high = _mm256_cvtepi32_pd(_mm_load_si128((const __m128i *)(const void *)(sums + 32 * r + i)));
                const __m256d low = _mm256_cvtepi32_pd(_mm_load_si128((const __m128i *)(const void *)(sums + 32 * r + 16 + i)));
                const __m256d part = _mm256_add_pd(_mm256_mul_pd(high, _mm256_set1_pd(1 << LB_LIMB)), low);
                _mm256_store_pd(total + 16 * r + i, _mm256_add_pd(_mm256_load_pd(total + 16 * r + i), part));
            }
    }
    for (int32_t i = 0; i < 16 * rows; i += 4)
        _mm_store_ps(out + i, _mm256_cvtpd_ps(_mm256_load_pd(total + i)));
}

static void some_rows(const lb_attention_s16_params *p, const buffers *s, const lb_attention_block *b, int32_t row, int32_t rows,
                      const int16_t *q, const void *mask, void *out) {
    const ptrdiff_t wide = lb_up(p->keys, 16), depth = lb_up(p->features, 16);
    const int32_t most = lb_attention_keys(p, row + rows - 1);
    for (int32_t r = 0; r < rows; r++)
        for (ptrdiff_t i = 0; i < depth; i += 16)
            _mm256_storeu_si256((__m256i *)(void *)(s->rows + r * depth + i),
                                some_words(q + b->q + (ptrdiff_t)(row + r) * p->q_stride[2] + i, p->features - i));
    for (int32_t j = 0; j < most; j += 16) {
        lb_words(rows, s->rows, depth, s->low + j * depth, depth / 2, (int32_t *)(void *)(s->u + j), wide, 0);
        lb_words(rows, s->rows, depth, s->high + j * depth, depth / 2, (int32_t *)(void *)(s->more + j), wide, 0);
    }
    float factor[ROWS];
    const __m256 scale = _mm256_set1_ps(p->score_scale);
    for (int32_t r = 0; r < rows; r++) {
        const int32_t keys = lb_attention_keys(p, row + r);
        float *u = s->u + r * wide;
        for (int32_t j = 0; j < keys; j += 8) {
            const __m256i low = _mm256_load_si256((const __m256i *)(const void *)(u + j));
            const __m256i high = _mm256_load_si256((const __m256i *)(const void *)(s->more + r * wide + j));
            _mm256_store_ps(u + j, _mm256_mul_ps(lb_joined8(high, 256.0, low), scale));
        }
        const float top = lb_mask_row(p, mask, b->mask + (ptrdiff_t)(row + r) * p->mask_stride[2], keys, u);
        factor[r] = lb_attention_factor(p, lb_probabilities(u, keys, top, s->p + 2 * r * wide, wide, lb_up(most, 16)));
    }
    const lb_target target = lb_target_of(p->out_bytes, p->y_zero, p->lo, p->hi);
    for (int32_t f = 0; f < p->values; f += 16) {
        _Alignas(32) float acc[ROWS * 16];
        weigh(s, wide, rows, s->values + f * lb_up(p->keys, 2), most, acc);
        const int32_t left = p->values - f;
        for (int32_t r = 0; r < rows; r++) {
            const __m256 m = _mm256_set1_ps(factor[r]);
            const ptrdiff_t at = b->out + (ptrdiff_t)(row + r) * p->out_stride[2] + f;
            lb_put8(out, at, _mm256_mul_ps(_mm256_load_ps(acc + 16 * r), m), left, &target);
            if (left > 8)
                lb_put8(out, at + 8, _mm256_mul_ps(_mm256_load_ps(acc + 16 * r + 8), m), left - 8, &target);
        }
    }
}

void lb_attention_s16__avx2(const lb_attention_s16_params *p, const int16_t *q, const int16_t *k, const int16_t *v, const void *mask,
                            void *out, void *scratch, int32_t begin, int32_t end) {
    if (p->q_zero || p->k_zero || p->v_zero || p->features > MOST_FEATURES) {
        lb_attention_ref(p, sizeof *q, q, k, v, mask, out, scratch, begin, end);
        return;
    }
    const ptrdiff_t wide = lb_up(p->keys, 16), depth = lb_up(p->features, 16), across = lb_up(p->values, 16);
    buffers s = {.u = scratch};
    s.more = s.u + ROWS * wide;
    s.low = (int16_t *)(void *)(s.more + ROWS * wide);
    s.high = s.low + wide * depth;
    s.values = s.high + wide * depth;
    s.rows = s.values + wide * across;
    s.p = s.rows + ROWS * depth;
    int32_t head = -1; /* whose keys and values are packed */
    for (int32_t item = begin; item < end; item++) {
        const lb_attention_block b = lb_attention_item(p, item);
        if (b.head != head) {
            pack_keys(k + b.k, p->k_stride[2], p->keys, p->features, s.low, s.high);
            pack_values(v + b.v, p->v_stride[2], p->values, p->keys, s.values);
            head = b.head;
        }
        for (int32_t row = b.top; row < b.bottom; row += ROWS)
            some_rows(p, &s, &b, row, b.bottom - row < ROWS ? b.bottom - row : ROWS, q, mask, out);
    }
}
