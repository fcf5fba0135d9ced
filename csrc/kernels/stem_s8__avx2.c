/* Rows of the image are widened to int16 less the zero point, with their padding. The elements that a pixel meets in a row are then
 * neighbours, whatever the stride: pairs of them are read where they stand, and no window is ever copied together. */
#include "lb.h"
#include "lb_madd_avx2.h"
#include "lb_requantize_avx2.h"

lb_stem_s8_fn lb_stem_s8__avx2;

enum { PANEL = 16, TILE = 6 };

typedef struct {
    int16_t *rows;                /* from row `top` of the image on */
    ptrdiff_t pitch;              /* elements from row to row */
    ptrdiff_t first, width, last; /* elements of a row: padding, image, padding again */
} strip;

static strip strip_of(const lb_stem_s8_params *p, void *scratch) {
    const ptrdiff_t reach = ((ptrdiff_t)(p->out_w - 1) * p->stride_w + p->kernel_w) * p->in_c;
    const ptrdiff_t pad = (ptrdiff_t)p->pad_w * p->in_c, size = (ptrdiff_t)p->in_w * p->in_c;
    const ptrdiff_t first = pad < reach ? pad : reach, width = reach - first < size ? reach - first : size;
    const ptrdiff_t pitch = (reach + 15) / 16 * 16 + 16;
    return (strip){scratch, pitch, first, width, pitch - first - width};
}

/* One row; `from` is NULL outside of the image. */
static void widen(const strip *s, const int8_t *from, int32_t zero_point, int16_t *to) {
    if (!from) {
        memset(to, 0, 2 * (size_t)s->pitch);
        return;
    }
    const __m256i zero = _mm256_set1_epi16((int16_t)zero_point);
    memset(to, 0, 2 * (size_t)s->first);
    to += s->first;
    ptrdiff_t i = 0;
    for (; i + 16 <= s->width; i += 16) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
        _mm256_storeu_si256((__m256i *)(void *)(to + i), _mm256_sub_epi16(_mm256_cvtepi8_epi16(bytes), zero));
    }
    for (; i < s->width; i++)
        to[i] = (int16_t)(from[i] - zero_point);
    memset(to + i, 0, 2 * (size_t)s->last);
}

/* `many` pixels, all channels. */
LB_INLINE void pixels(const int many, const lb_stem_s8_params *p, const strip *s, const int16_t *const *at, const int16_t *w,
                      const int32_t *bias, const float *multiplier, const lb_clamp16 *clamp, int8_t *out) {
    const ptrdiff_t pairs = ((ptrdiff_t)p->kernel_w * p->in_c + 1) / 2, down = s->pitch * p->dilation_h;
    for (int32_t n = 0; n < p->out_c; n += PANEL) {
        const int32_t width = p->out_c - n < PANEL ? p->out_c - n : PANEL;
        _Alignas(32) int32_t start[PANEL];
        _Alignas(32) float m[PANEL];
        lb_load16(bias + n, width, start);
        lb_load16(multiplier + n, width, m);
        __m256i c[TILE][2];
        LB_UNROLL
        for (int i = 0; i < many; i++) {
            c[i][0] = _mm256_load_si256((const __m256i *)(const void *)start);
            c[i][1] = _mm256_load_si256((const __m256i *)(const void *)(start + 8));
        }
        for (int32_t row = 0; row < p->kernel_h; row++) {
            const ptrdiff_t offset = row * down;
            for (ptrdiff_t j = 0; j < 2 * pairs; j += 2, w += 2 * PANEL) {
                const __m256i w0 = _mm256_load_si256((const __m256i *)(const void *)w);
                const __m256i w1 = _mm256_load_si256((const __m256i *)(const void *)(w + PANEL));
                LB_UNROLL
                for (int i = 0; i < many; i++)
                    lb_madd_pair(c[i], at[i] + offset + j, w0, w1);
            }
        }
        const __m256 m0 = _mm256_load_ps(m), m1 = _mm256_load_ps(m + 8);
        LB_UNROLL
        for (int i = 0; i < many; i++)
            lb_store_bytes(out + (ptrdiff_t)i * p->out_stride + n, lb_requantize16(c[i][0], c[i][1], m0, m1, clamp), width);
    }
}

#define PIXELS(n)                                                                                                                          \
    static void pixels##n(const lb_stem_s8_params *p, const strip *s, const int16_t *const *at, const int16_t *w, const int32_t *bias,     \
                          const float *multiplier, const lb_clamp16 *clamp, int8_t *out) {                                                 \
        pixels(n, p, s, at, w, bias, multiplier, clamp, out);                                                                              \
    }
PIXELS(1)
PIXELS(2)
PIXELS(3)
PIXELS(4)
PIXELS(5)
PIXELS(6)

typedef void pixels_fn(const lb_stem_s8_params *p, const strip *s, const int16_t *const *at, const int16_t *w, const int32_t *bias,
                       const float *multiplier, const lb_clamp16 *clamp, int8_t *out);

void lb_stem_s8__avx2(const lb_stem_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier, int8_t *out,
                      void *scratch, int32_t begin, int32_t end) {
    static pixels_fn *const by_count[TILE + 1] = {NULL, pixels1, pixels2, pixels3, pixels4, pixels5, pixels6};
    const lb_clamp16 clamp = lb_clamp16_of(p->y_zero, p->lo, p->hi);
    const strip s = strip_of(p, scratch);
    for (int32_t item = begin, rows; item < end; item += rows) {
        const int32_t row = item % p->out_h, left = p->out_h - row;
        rows = end - item < left ? end - item : left; /* of one image */
        rows = rows < p->block ? rows : p->block;
        const int8_t *image = x + (ptrdiff_t)(item / p->out_h) * p->in_h * p->in_w * p->in_c;
        const int32_t top = row * p->stride_h - p->pad_h, high = (rows - 1) * p->stride_h + (p->kernel_h - 1) * p->dilation_h + 1;
        for (int32_t i = 0; i < high; i++) {
            const int inside = top + i >= 0 && top + i < p->in_h;
            widen(&s, inside ? image + (ptrdiff_t)(top + i) * p->in_w * p->in_c : NULL, p->x_zero, s.rows + i * s.pitch);
        }
        int8_t *to = out + (ptrdiff_t)item * p->out_w * p->out_stride;
        const int32_t all = rows * p->out_w;
        const int16_t *down = s.rows, *next = s.rows;
        for (int32_t t = 0, column = 0, many; t < all; t += many, to += (ptrdiff_t)many * p->out_stride) {
            const int16_t *at[TILE];
            many = all - t < TILE ? all - t : TILE;
            for (int32_t i = 0; i < many; i++) {
                at[i] = next;
                next += (ptrdiff_t)p->stride_w * p->in_c;
                if (++column == p->out_w)
                    column = 0, next = down += s.pitch * p->stride_h;
            }
            by_count[many](p, &s, at, w, bias, multiplier, &clamp, to);
        }
    }
}
