/* Rows of the image become bytes without a sign, with their padding. The elements that a pixel meets in a row are then neighbours, whatever
 * the stride: four of them are read where they stand, and no window is ever copied together.
 *
 *   sum of (x - x_zero) w = sum of (x + 128) w - (x_zero + 128) sum of w */
#include "lb.h"
#include "lb_clamp_avx512.h"
#include "lb_vnni.h"

#include <string.h>

lb_stem_s8_fn lb_stem_s8__avx512vnni;

enum { LANES = 16, MOST_PIXELS = 16 };

typedef struct {
    uint8_t *rows;
    ptrdiff_t pitch;        /* bytes from row to row */
    ptrdiff_t first, width; /* bytes of padding, and of the image behind them */
} strip;

static strip strip_of(const lb_stem_s8_params *p, void *scratch) {
    const ptrdiff_t pixels = p->out_w < MOST_PIXELS ? MOST_PIXELS : p->out_w;
    const ptrdiff_t reach = ((pixels - 1) * p->stride_w + p->kernel_w) * p->in_c;
    const ptrdiff_t pad = (ptrdiff_t)p->pad_w * p->in_c, size = (ptrdiff_t)p->in_w * p->in_c;
    const ptrdiff_t first = pad < reach ? pad : reach, width = reach - first < size ? reach - first : size;
    return (strip){scratch, (reach + 63) / 64 * 64 + 64, first, width};
}

/* One row; `from` is NULL outside of the image. */
static void widen(const strip *s, const int8_t *from, int32_t x_zero, uint8_t *to) {
    const __m512i sign = _mm512_set1_epi8((char)-128);
    memset(to, x_zero + 128, (size_t)(from ? s->first : s->pitch));
    if (!from)
        return;
    to += s->first;
    for (ptrdiff_t i = 0; i < s->width; i += 64) {
        const __mmask64 some = lb_first64(s->width - i < 64 ? (int32_t)(s->width - i) : 64);
        _mm512_mask_storeu_epi8(to + i, some, _mm512_xor_si512(_mm512_maskz_loadu_epi8(some, from + i), sign));
    }
    memset(to + s->width, x_zero + 128, (size_t)(s->pitch - s->first - s->width));
}

typedef struct {
    __m512i start[4]; /* what sums begin with */
    __m512 multiplier[4];
    lb_clamp64 clamp;
    __mmask64 exist; /* channels */
} ending;

/* As many pixels of a row as the vectors of `wide` allow, `apart` bytes from one to the next; the first `many` of them are stored. */
LB_INLINE void pixels(const int count, const int wide, const lb_stem_s8_params *p, const uint8_t *at, ptrdiff_t pitch, const int8_t *w,
                      const ending *e, int8_t *out, int32_t many) {
    const ptrdiff_t apart = (ptrdiff_t)p->stride_w * p->in_c, panel = (ptrdiff_t)p->kernel_h * ((p->kernel_w * p->in_c + 3) / 4) * 64;
    const ptrdiff_t run = (ptrdiff_t)p->kernel_w * p->in_c;
    __m512i c[24];
    _Pragma("GCC unroll 24") for (int i = 0; i < count * wide; i++) c[i] = e->start[i % wide];
    for (int32_t row = 0; row < p->kernel_h; row++, at += pitch * p->dilation_h)
        for (ptrdiff_t k = 0; k < run; k += 4, w += 64) {
            __m512i taps[4];
            LB_UNROLL
            for (int n = 0; n < wide; n++)
                taps[n] = _mm512_load_si512(w + n * panel);
            _Pragma("GCC unroll 16") for (int i = 0; i < count; i++) {
                int32_t four;
                memcpy(&four, at + k + i * apart, 4);
                const __m512i a = _mm512_set1_epi32(four);
                LB_UNROLL
                for (int n = 0; n < wide; n++)
                    c[wide * i + n] = lb_dpbusd512(c[wide * i + n], a, taps[n]);
            }
        }
    _Pragma("GCC unroll 8") for (int i = 0; i < count; i += 4 / wide) {
        if (i >= many)
            break;
        const __m512i bytes = lb_requantize64(wide, c + wide * i, e->multiplier, &e->clamp);
        lb_store_pixels(wide, bytes, out + (ptrdiff_t)i * p->out_stride, p->out_stride, many - i, e->exist);
    }
}

#define PIXELS(count, wide)                                                                                                                \
    static void pixels##wide(const lb_stem_s8_params *p, const uint8_t *at, ptrdiff_t pitch, const int8_t *w, const ending *e,             \
                             int8_t *out, int32_t many) {                                                                                  \
        pixels(count, wide, p, at, pitch, w, e, out, many);                                                                                \
    }
PIXELS(16, 1)
PIXELS(8, 2)
PIXELS(6, 4)

typedef void pixels_fn(const lb_stem_s8_params *p, const uint8_t *at, ptrdiff_t pitch, const int8_t *w, const ending *e, int8_t *out,
                       int32_t many);

/* A row of the output, 16 * wide channels. */
static void row_of_pixels(const lb_stem_s8_params *p, pixels_fn *f, int32_t count, const strip *s, const uint8_t *at, const int8_t *w,
                          const ending *e, int8_t *out) {
    for (int32_t column = 0; column < p->out_w; column += count) {
        const int32_t left = p->out_w - column, back = left < count && column ? count - left : 0; /* the last are done with some before */
        const ptrdiff_t from = column - back;
        f(p, at + from * p->stride_w * p->in_c, s->pitch, w, e, out + from * p->out_stride, left + back);
    }
}

static ending ending_of(const lb_stem_s8_params *p, const int32_t *sums, const int32_t *bias, const float *multiplier, int32_t width) {
    ending e = {.clamp = lb_clamp64_of(p->y_zero, p->lo, p->hi), .exist = lb_first64(width)};
    const __m512i zero = _mm512_set1_epi32(p->x_zero + 128);
    for (int n = 0; n * LANES < width; n++) {
        const __mmask16 some = (__mmask16)(e.exist >> (n * LANES));
        const __m512i sum = _mm512_load_si512(sums + n * LANES);
        e.start[n] = _mm512_sub_epi32(_mm512_maskz_loadu_epi32(some, bias + n * LANES), _mm512_mullo_epi32(sum, zero));
        e.multiplier[n] = _mm512_maskz_loadu_ps(some, multiplier + n * LANES);
    }
    return e;
}

void lb_stem_s8__avx512vnni(const lb_stem_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier,
                            int8_t *out, void *scratch, int32_t begin, int32_t end) {
    const strip s = strip_of(p, scratch);
    const int32_t panels = (p->out_c + LANES - 1) / LANES;
    const ptrdiff_t panel = (ptrdiff_t)p->kernel_h * ((p->kernel_w * p->in_c + 3) / 4) * 64;
    const int32_t *sums = w;
    const int8_t *taps = (const int8_t *)w + 64 * (ptrdiff_t)panels;
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
        for (int32_t n = 0, wide; n < panels; n += wide) {
            wide = panels - n >= 4 ? 4 : panels - n >= 2 ? 2 : 1;
            const int32_t c = n * LANES, width = p->out_c - c < wide * LANES ? p->out_c - c : wide * LANES;
            const ending e = ending_of(p, sums + c, bias + c, multiplier + c, width);
            for (int32_t i = 0; i < rows; i++)
                row_of_pixels(p,
                              wide == 4   ? pixels4
                              : wide == 2 ? pixels2
                                          : pixels1,
                              wide == 4   ? 6
                              : wide == 2 ? 8
                                          : 16,
                              &s, s.rows + i * p->stride_h * s.pitch, taps + n * panel, &e,
                              out + (ptrdiff_t)(item + i) * p->out_w * p->out_stride + c);
        }
    }
}
