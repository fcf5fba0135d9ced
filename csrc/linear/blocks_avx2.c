/* int8 weights with a scale for each block, by AVX2: 16 products of 16 bits at a time, four columns for one reading of the row. Sums are
 * exact integers, and floats are added in the order of ref. */
#include "gemm/gemm_s8.h"
#include "linear/dynamic.h"

#include <immintrin.h>

lb_linear_s8_blocks_f32_fn lb_linear_s8_blocks_f32__avx2;

enum { COLUMNS = 4, STEP = 16 };

static inline __m256i widened(const int8_t *p) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p));
}

static inline int32_t total(__m256i v) {
    const __m128i half = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    const __m128i two = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xB1)));
}

/* The dot products of x - zero with `count` rows of weights that are k apart. */
static inline void dots(const int8_t *x, int32_t zero, const int8_t *w, ptrdiff_t k, int32_t count, ptrdiff_t length, int32_t *acc) {
    const __m256i centre = _mm256_set1_epi16((int16_t)zero);
    __m256i sums[COLUMNS] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    ptrdiff_t at = 0;
    for (; at + STEP <= length; at += STEP) {
        const __m256i row = _mm256_sub_epi16(widened(x + at), centre);
        for (int32_t c = 0; c < count; c++)
            sums[c] = _mm256_add_epi32(sums[c], _mm256_madd_epi16(row, widened(w + c * k + at)));
    }
    for (int32_t c = 0; c < count; c++) {
        acc[c] = total(sums[c]);
        for (ptrdiff_t i = at; i < length; i++)
            acc[c] += (x[i] - zero) * w[c * k + i];
    }
}

void lb_linear_s8_blocks_f32__avx2(const lb_linear_s8_blocks_f32_params *p, const int8_t *x, const float *x_scales, const int8_t *w,
                                   const float *scales, const float *bias, float *out, int32_t begin, int32_t end) {
    const ptrdiff_t segments = lb_segments(p->k, p->segment);
    for (ptrdiff_t i = begin; i < end; i++) {
        const float each = segments == 1 ? x_scales[i] : 1.0f, last = segments == 1 ? 1.0f : x_scales[i];
        for (ptrdiff_t j = 0; j < p->n; j += COLUMNS) {
            const int32_t count = p->n - j < COLUMNS ? (int32_t)(p->n - j) : COLUMNS;
            float t[COLUMNS] = {0.0f, 0.0f, 0.0f, 0.0f};
            for (int32_t s = 0; s < segments; s++) {
                const ptrdiff_t at = (ptrdiff_t)s * p->segment;
                int32_t acc[COLUMNS] = {0, 0, 0, 0};
                dots(x + i * p->k + at, p->x_zero, w + j * p->k + at, p->k, count, lb_segment_length(p->k, p->segment, s), acc);
                for (int32_t c = 0; c < count; c++)
                    t[c] += (float)acc[c] * (each * scales[(j + c) * segments + s]);
            }
            for (int32_t c = 0; c < count; c++)
                out[i * p->n + j + c] = t[c] * last + bias[j + c];
        }
    }
}
