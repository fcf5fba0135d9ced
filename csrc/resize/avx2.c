#include "base/requantize_avx2.h"
#include "resize/resize_pixel.h"

lb_resize_s8_fn lb_resize_s8__avx2;

enum { BLOCK = 16 };

static inline __m256i bytes16(const int8_t *from) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)from));
}

/* The columns of 16 channels of one line, mixed two at a time: sums of channels 0-3 and 8-11, and of 4-7 and 12-15. */
static inline void mix_columns(const int8_t *line, ptrdiff_t channels, const int32_t *at, const int16_t *by, int32_t taps, __m256i sum[2]) {
    sum[0] = sum[1] = _mm256_setzero_si256();
    for (int32_t j = 0; j < taps; j += 2) {
        const int pair = j + 1 < taps;
        const __m256i a = bytes16(line + at[j] * channels), b = bytes16(line + at[j + pair] * channels);
        const __m256i w = _mm256_set1_epi32((int32_t)((uint32_t)(uint16_t)by[j] | (pair ? (uint32_t)(uint16_t)by[j + 1] << 16 : 0)));
        sum[0] = _mm256_add_epi32(sum[0], _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), w));
        sum[1] = _mm256_add_epi32(sum[1], _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), w));
    }
}

void lb_resize_s8__avx2(const lb_resize_s8_params *p, const int8_t *x, const int32_t *row_at, const int16_t *row_by,
                        const int32_t *column_at, const int16_t *column_by, int8_t *out, int32_t begin, int32_t end) {
    const lb_clamp16 clamp = lb_clamp16_of(p->y_zero, p->lo, p->hi);
    const __m256 m = _mm256_set1_ps(p->multiplier);
    const __m256i offset = _mm256_set1_epi32(-p->offset);
    for (int32_t item = begin; item < end; item++) {
        const int8_t *image = x + (ptrdiff_t)(item / p->out_h) * p->in_h * p->in_w * p->channels;
        const ptrdiff_t row = (ptrdiff_t)(item % p->out_h) * p->row_taps;
        for (int32_t o = 0; o < p->out_w; o++) {
            int8_t *to = out + ((ptrdiff_t)item * p->out_w + o) * p->channels;
            const int32_t *at = column_at + (ptrdiff_t)o * p->column_taps;
            const int16_t *by = column_by + (ptrdiff_t)o * p->column_taps;
            if (p->channels < BLOCK) {
                lb_resize_pixel(p, image, row_at + row, row_by + row, at, by, to);
                continue;
            }
            for (int32_t c = 0; c < p->channels; c += BLOCK) {
                const int32_t first = p->channels - c < BLOCK ? p->channels - BLOCK : c; /* the last block is whole */
                __m256i acc[2] = {offset, offset}, sum[2];
                for (int32_t i = 0; i < p->row_taps; i++) {
                    mix_columns(image + (ptrdiff_t)row_at[row + i] * p->in_w * p->channels + first, p->channels, at, by, p->column_taps,
                                sum);
                    const __m256i w = _mm256_set1_epi32(row_by[row + i]);
                    for (int h = 0; h < 2; h++)
                        acc[h] = _mm256_add_epi32(acc[h], _mm256_mullo_epi32(sum[h], w));
                }
                const __m256i low = _mm256_permute2x128_si256(acc[0], acc[1], 0x20), high = _mm256_permute2x128_si256(acc[0], acc[1], 0x31);
                _mm_storeu_si128((__m128i *)(void *)(to + first), lb_requantize16(low, high, m, m, &clamp));
            }
        }
    }
}
