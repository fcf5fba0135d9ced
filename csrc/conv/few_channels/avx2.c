/* Rows of the image are widened to int16 less the zero point, with their padding. The elements that a pixel meets in a row are then
 * neighbours, whatever the stride: pairs of them are read where they stand, and no window is ever copied together. */
#include "lb.h"
#include "conv/few_channels/few_channels_taps.h"
#include "base/madd_avx2.h"
#include "base/requantize_avx2.h"

lb_conv_few_channels_s8_fn lb_conv_few_channels_s8__avx2;

enum { PANEL = 16, TILE = 6 };

typedef struct {
    int16_t *rows;                /* from row `top` of the image on */
    ptrdiff_t pitch;              /* elements from row to row */
    ptrdiff_t first, width, last; /* elements of a row: padding, image, padding again */
} strip;

static strip strip_of(const lb_conv_few_channels_s8_params *p, void *scratch) {
    const ptrdiff_t reach = ((ptrdiff_t)(p->out_w - 1) * p->stride_w + p->kernel_w) * p->in_c;
    const ptrdiff_t pad = (ptrdiff_t)p->pad_w * p->in_c, size = (ptrdiff_t)p->in_w * p->in_c;
    const ptrdiff_t first = pad < reach ? pad : reach, width = reach - first < size ? reach - first : size;
    const ptrdiff_t pitch = (reach + 15) / 16 * 16 + 16;
    return (strip){scratch, pitch, first, width, pitch - first - width};
}

LB_INLINE void zeros(int16_t *to) {
    _mm256_storeu_si256((__m256i *)(void *)to, _mm256_setzero_si256());
}

/* 8 bytes less the zero point. */
LB_INLINE void widen8(const int8_t *from, __m256i zero, int16_t *to) {
    const __m128i v = _mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)from));
    _mm_storeu_si128((__m128i *)(void *)to, _mm_sub_epi16(v, _mm256_castsi256_si128(zero)));
}

/* One row; `from` is NULL outside of the image. What is written is written 16 at a time: there are as many after the image at least, and
 * what belongs to the image comes last. */
static void widen(const strip *s, const int8_t *from, int32_t zero_point, int16_t *to) {
    const ptrdiff_t first = from ? s->first : s->pitch;
    for (ptrdiff_t i = 0; i < first; i += 16)
        zeros(to + i);
    if (!from)
        return;
    for (ptrdiff_t i = first + s->width; i < s->pitch - 16; i += 16)
        zeros(to + i);
    zeros(to + s->pitch - 16);
    const __m256i zero = _mm256_set1_epi16((int16_t)zero_point);
    to += first;
    ptrdiff_t i = 0;
    for (; i + 16 <= s->width; i += 16) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
        _mm256_storeu_si256((__m256i *)(void *)(to + i), _mm256_sub_epi16(_mm256_cvtepi8_epi16(bytes), zero));
    }
    if (s->width >= 8) { /* some come twice */
        if (i + 8 < s->width)
            widen8(from + i, zero, to + i);
        widen8(from + s->width - 8, zero, to + s->width - 8);
        return;
    }
    for (; i < s->width; i++)
        to[i] = (int16_t)(from[i] - zero_point);
}

/* Bytes of `many` pixels, 16 channels. */
LB_INLINE void put(const int many, const int bare, __m256i c[TILE][2], __m256 m0, __m256 m1, const lb_clamp16 *clamp, int8_t *out,
                   ptrdiff_t stride, int32_t width) {
    LB_UNROLL
    for (int i = 0; i < many; i += 2) {
        const int other = i + 1 < many ? i + 1 : i;
        const __m256i bytes =
            bare ? lb_requantize32_bare(c[i], c[other], m0, m1, clamp->zero_point) : lb_requantize32(c[i], c[other], m0, m1, clamp);
        lb_store_bytes(out + i * stride, _mm256_castsi256_si128(bytes), width);
        if (i + 1 < many)
            lb_store_bytes(out + (i + 1) * stride, _mm256_extracti128_si256(bytes, 1), width);
    }
}

/* `many` pixels, all channels. */
LB_INLINE void pixels(const int many, const lb_conv_few_channels_s8_params *p, const strip *s, taps *t, const int16_t *const *at,
                      const int16_t *w, const int32_t *bias, const float *multiplier, const lb_clamp16 *clamp, int8_t *out) {
    for (int32_t n = 0; n < p->out_c; n += PANEL) {
        const int32_t width = p->out_c - n < PANEL ? p->out_c - n : PANEL;
        const int32_t *start = bias + n;
        const float *m = multiplier + n;
        _Alignas(32) int32_t last[PANEL];
        _Alignas(32) float last_m[PANEL];
        if (width < PANEL) {
            lb_load16(start, width, last);
            lb_load16(m, width, last_m);
            start = last, m = last_m;
        }
        __m256i c[TILE][2];
        c[0][0] = _mm256_loadu_si256((const __m256i *)(const void *)start);
        c[0][1] = _mm256_loadu_si256((const __m256i *)(const void *)(start + 8));
        LB_UNROLL
        for (int i = 1; i < many; i++)
            c[i][0] = c[0][0], c[i][1] = c[0][1];
        for (int32_t first = 0; first < t->all; first += TAPS) {
            if (t->all > TAPS)
                find_taps(p, 2, s->pitch, first, t);
            const int32_t *offset = t->offsets, *end = offset + (t->all - first < TAPS ? t->all - first : TAPS);
            for (; offset < end; offset++, w += 2 * PANEL) {
                const __m256i w0 = _mm256_load_si256((const __m256i *)(const void *)w);
                const __m256i w1 = _mm256_load_si256((const __m256i *)(const void *)(w + PANEL));
                LB_UNROLL
                for (int i = 0; i < many; i++)
                    lb_madd_pair(c[i], at[i] + *offset, w0, w1);
            }
        }
        const __m256 m0 = _mm256_loadu_ps(m), m1 = _mm256_loadu_ps(m + 8), half = _mm256_set1_ps(0.5f);
        const int large = _mm256_movemask_ps(_mm256_cmp_ps(_mm256_max_ps(m0, m1), half, _CMP_GT_OQ));
        if (width == PANEL && !large && p->lo == -128 && p->hi == 127)
            put(many, 1, c, m0, m1, clamp, out + n, p->out_stride, PANEL);
        else if (width == PANEL)
            put(many, 0, c, m0, m1, clamp, out + n, p->out_stride, PANEL);
        else
            put(many, 0, c, m0, m1, clamp, out + n, p->out_stride, width);
    }
}

#define PIXELS(n)                                                                                                                          \
    static void pixels##n(const lb_conv_few_channels_s8_params *p, const strip *s, taps *t, const int16_t *const *at, const int16_t *w,    \
                          const int32_t *bias, const float *multiplier, const lb_clamp16 *clamp, int8_t *out) {                            \
        pixels(n, p, s, t, at, w, bias, multiplier, clamp, out);                                                                           \
    }
PIXELS(1)
PIXELS(2)
PIXELS(3)
PIXELS(4)
PIXELS(5)
PIXELS(6)

typedef void pixels_fn(const lb_conv_few_channels_s8_params *p, const strip *s, taps *t, const int16_t *const *at, const int16_t *w,
                       const int32_t *bias, const float *multiplier, const lb_clamp16 *clamp, int8_t *out);

void lb_conv_few_channels_s8__avx2(const lb_conv_few_channels_s8_params *p, const int8_t *x, const void *w, const int32_t *bias,
                                   const float *multiplier, int8_t *out, void *scratch, int32_t begin, int32_t end) {
    static pixels_fn *const by_count[TILE + 1] = {NULL, pixels1, pixels2, pixels3, pixels4, pixels5, pixels6};
    const lb_clamp16 clamp = lb_clamp16_of(p->y_zero, p->lo, p->hi);
    const strip s = strip_of(p, scratch);
    taps t = {.all = p->kernel_h * ((p->kernel_w * p->in_c + 1) / 2)};
    find_taps(p, 2, s.pitch, 0, &t);
    for (int32_t item = begin, rows; item < end; item += rows) {
        const row_block b = row_block_at(p, x, item, end);
        rows = b.rows;
        for (int32_t i = 0; i < b.high; i++)
            widen(&s, row_of_block(p, &b, i), p->x_zero, s.rows + i * s.pitch);
        int8_t *to = out + (ptrdiff_t)item * p->out_w * p->out_stride;
        const int32_t all = rows * p->out_w;
        const int16_t *down = s.rows, *next = s.rows;
        for (int32_t done = 0, column = 0, many; done < all; done += many, to += (ptrdiff_t)many * p->out_stride) {
            const int16_t *at[TILE];
            many = all - done < TILE ? all - done : TILE;
            for (int32_t i = 0; i < many; i++) {
                at[i] = next;
                next += (ptrdiff_t)p->stride_w * p->in_c;
                if (++column == p->out_w)
                    column = 0, next = down += s.pitch * p->stride_h;
            }
            by_count[many](p, &s, &t, at, w, bias, multiplier, &clamp, to);
        }
    }
}
