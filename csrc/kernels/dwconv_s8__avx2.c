/* Sixteen channels at a time. The rows of a window are taken in pairs: the bytes of two rows, interleaved and widened, meet the
 * weights of both in one vpmaddwd; a last row that stands alone is paired with itself and a weight of 0. Padding holds the zero point, and
 * the zero point times the weights is taken off the bias, so no element is looked at twice. Sums are modulo 2^32. */
#include "lb.h"
#include "lb_numerics.h"
#include "lb_requantize_avx2.h"

lb_dwconv_s8_fn lb_dwconv_s8__avx2;

enum { BLOCK = 16, ACROSS = 2 };

static inline __m256i load256(const void *from) {
    return _mm256_load_si256((const __m256i *)from);
}

/* 16 channels of a pixel, of which `count` exist. */
static inline __m128i load_channels(const int8_t *from, int32_t count) {
    if (count >= BLOCK)
        return _mm_loadu_si128((const __m128i *)(const void *)from);
    int8_t bytes[BLOCK] = {0};
    memcpy(bytes, from, (size_t)count);
    return _mm_loadu_si128((const __m128i *)(const void *)bytes);
}

/* Two rows of `width` pixels (NULL: padding) as pairs, 16 channels of a pixel in two vectors; `before` pixels of padding first, `after`
 * behind. */
static void interleave(const int8_t *a, const int8_t *b, ptrdiff_t step, int32_t width, int32_t before, int32_t after, int32_t count,
                       int32_t zero_point, __m256i *to) {
    const __m256i padding = _mm256_set1_epi16((int16_t)zero_point);
    const __m128i zeros = _mm_set1_epi8((char)zero_point);
    for (int32_t i = 0; i < before; i++, to += 2)
        to[0] = to[1] = padding;
    for (int32_t i = 0; i < width; i++, to += 2) {
        const __m128i u = a ? load_channels(a + i * step, count) : zeros, v = b ? load_channels(b + i * step, count) : zeros;
        to[0] = _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(u, v));
        to[1] = _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(u, v));
    }
    for (int32_t i = 0; i < after; i++, to += 2)
        to[0] = to[1] = padding;
}

typedef struct {
    const __m256i *pairs, *weights;
    ptrdiff_t across;   /* vectors from pair of rows to pair of rows */
    ptrdiff_t dilation; /* vectors from tap to tap */
    ptrdiff_t stride;   /* vectors from output to output */
    int32_t row_pairs, kernel_w;
    __m256i start[2];
    __m256 m[2];
    lb_clamp16 clamp;
} state;

/* `many` neighbouring outputs. */
static inline __attribute__((always_inline)) void outputs(const state *s, const int many, const int row_pairs, const int kernel_w,
                                                          const __m256i *pairs, int8_t *out, ptrdiff_t out_stride, int32_t count) {
    __m256i acc[ACROSS][2];
    for (int o = 0; o < many; o++)
        acc[o][0] = s->start[0], acc[o][1] = s->start[1];
    const __m256i *w = s->weights;
    for (int i = 0; i < row_pairs; i++)
        for (int j = 0; j < kernel_w; j++, w += 2) {
            const __m256i *from = pairs + i * s->across + j * s->dilation;
            for (int o = 0; o < many; o++, from += s->stride) {
                acc[o][0] = _mm256_add_epi32(acc[o][0], _mm256_madd_epi16(from[0], w[0]));
                acc[o][1] = _mm256_add_epi32(acc[o][1], _mm256_madd_epi16(from[1], w[1]));
            }
        }
    for (int o = 0; o < many; o++)
        lb_store_bytes(out + o * out_stride, lb_requantize16(acc[o][0], acc[o][1], s->m[0], s->m[1], &s->clamp), count);
}

/* A row of outputs; for kernels of 3x3 the loops are known to the compiler. */
static inline __attribute__((always_inline)) void row(const state *s, const int row_pairs, const int kernel_w, int32_t out_w, int8_t *out,
                                                      ptrdiff_t out_stride, int32_t count) {
    const __m256i *pairs = s->pairs;
    int32_t o = 0;
    for (; o + ACROSS <= out_w; o += ACROSS, pairs += ACROSS * s->stride)
        outputs(s, ACROSS, row_pairs, kernel_w, pairs, out + o * out_stride, out_stride, count);
    for (; o < out_w; o++, pairs += s->stride)
        outputs(s, 1, row_pairs, kernel_w, pairs, out + o * out_stride, out_stride, count);
}

/* Weights of 16 channels as pairs of rows, and what the zero point makes of the bias. */
static void prepare(const lb_dwconv_s8_params *p, const int8_t *w, const int32_t *bias, const float *multiplier, int32_t c, int32_t count,
                    state *s, __m256i *weights) {
    uint32_t start[BLOCK] = {0};
    float m[BLOCK] = {0};
    for (int32_t i = 0; i < count; i++)
        start[i] = (uint32_t)bias[c + i], m[i] = multiplier[c + i];
    int16_t *to = (int16_t *)(void *)weights;
    for (int32_t i = 0; i < p->kernel_h; i += 2)
        for (int32_t j = 0; j < p->kernel_w; j++)
            for (int32_t l = 0; l < BLOCK; l++) {
                const int8_t *at = w + ((ptrdiff_t)i * p->kernel_w + j) * p->channels + c + l;
                const int32_t upper = l < count ? at[0] : 0;
                const int32_t lower = l < count && i + 1 < p->kernel_h ? at[(ptrdiff_t)p->kernel_w * p->channels] : 0;
                *to++ = (int16_t)upper, *to++ = (int16_t)lower;
                start[l] -= (uint32_t)(p->x_zero * (upper + lower));
            }
    s->start[0] = _mm256_loadu_si256((const __m256i *)(const void *)start);
    s->start[1] = _mm256_loadu_si256((const __m256i *)(const void *)(start + 8));
    s->m[0] = _mm256_loadu_ps(m), s->m[1] = _mm256_loadu_ps(m + 8);
}

void lb_dwconv_s8__avx2(const lb_dwconv_s8_params *p, const int8_t *x, const int8_t *w, const int32_t *bias, const float *multiplier,
                        int8_t *out, void *scratch, int32_t begin, int32_t end) {
    const int32_t row_pairs = (p->kernel_h + 1) / 2, reach = (p->out_w - 1) * p->stride_w + (p->kernel_w - 1) * p->dilation_w + 1;
    const int32_t width = reach - p->pad_w < p->in_w ? (reach > p->pad_w ? reach - p->pad_w : 0) : p->in_w;
    const int32_t before = p->pad_w < reach ? p->pad_w : reach, after = reach - before - width;
    __m256i *weights = scratch, *pairs = weights + 2 * (ptrdiff_t)row_pairs * p->kernel_w;
    state s = {pairs,
               weights,
               2 * (ptrdiff_t)reach,
               2 * (ptrdiff_t)p->dilation_w,
               2 * (ptrdiff_t)p->stride_w,
               row_pairs,
               p->kernel_w,
               {{0}},
               {{0}},
               lb_clamp16_of(p->y_zero, p->lo, p->hi)};
    for (int32_t c = 0; c < p->channels && begin < end; c += BLOCK) {
        const int32_t count = p->channels - c < BLOCK ? p->channels - c : BLOCK;
        prepare(p, w, bias, multiplier, c, count, &s, weights);
        for (int32_t item = begin; item < end; item++) {
            const int8_t *image = x + (ptrdiff_t)(item / p->out_h) * p->in_h * p->in_w * p->channels + c;
            const int32_t top = item % p->out_h * p->stride_h - p->pad_h;
            for (int32_t i = 0; i < p->kernel_h; i += 2) {
                const int8_t *rows[2] = {NULL, NULL};
                for (int32_t j = 0; j < 2 && i + j < p->kernel_h; j++) {
                    const int32_t at = top + (i + j) * p->dilation_h;
                    rows[j] = at >= 0 && at < p->in_h ? image + (ptrdiff_t)at * p->in_w * p->channels : NULL;
                }
                interleave(rows[0], i + 1 < p->kernel_h ? rows[1] : rows[0], p->channels, width, before, after, count, p->x_zero,
                           pairs + i / 2 * s.across);
            }
            int8_t *to = out + (ptrdiff_t)item * p->out_w * p->out_stride + c;
            if (row_pairs == 2 && p->kernel_w == 3)
                row(&s, 2, 3, p->out_w, to, p->out_stride, count);
            else
                row(&s, row_pairs, p->kernel_w, p->out_w, to, p->out_stride, count);
        }
    }
}
