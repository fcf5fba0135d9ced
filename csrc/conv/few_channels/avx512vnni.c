/* Rows of the image become bytes without a sign, with their padding. The elements that a pixel meets in a row are then neighbours, whatever
 * the stride: four of them are read where they stand, and no window is ever copied together.
 *
 *   sum of (x - x_zero) w = sum of (x + 128) w - (x_zero + 128) sum of w */
#include "lb.h"
#include "conv/few_channels/few_channels_taps.h"
#include "base/requantize_avx512.h"
#include "base/vnni.h"

#include <string.h>

lb_conv_few_channels_s8_fn lb_conv_few_channels_s8__avx512vnni;

enum { LANES = 16, MOST_PIXELS = 16 };

typedef struct {
    uint8_t *rows;
    ptrdiff_t pitch;        /* bytes from row to row */
    ptrdiff_t first, width; /* bytes of padding, and of the image after them */
} strip;

static strip strip_of(const lb_conv_few_channels_s8_params *p, void *scratch) {
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
        const __mmask64 some = lb_first64(s->width - i);
        _mm512_mask_storeu_epi8(to + i, some, _mm512_xor_si512(_mm512_maskz_loadu_epi8(some, from + i), sign));
    }
    memset(to + s->width, x_zero + 128, (size_t)(s->pitch - s->first - s->width));
}

typedef struct {
    __m512i start[4]; /* what sums begin with */
    __m512 multiplier[4];
    lb_clamp64 clamp;
    __mmask64 exist; /* channels */
} epilogue;

/* `count` pixels of a row, 16 * wide channels; the first `many` pixels are stored. */
LB_INLINE void pixels(const int count, const int wide, const lb_conv_few_channels_s8_params *p, const strip *s, taps *t, const uint8_t *at,
                      const int8_t *w, const epilogue *e, int8_t *out, int32_t many) {
    const ptrdiff_t apart = (ptrdiff_t)p->stride_w * p->in_c, panel = 64 * (ptrdiff_t)t->all;
    __m512i c[24];
#pragma GCC unroll 24
    for (int i = 0; i < count * wide; i++)
        c[i] = e->start[i % wide];
    for (int32_t first = 0; first < t->all; first += TAPS) {
        if (t->all > TAPS)
            find_taps(p, 4, s->pitch, first, t);
        const int32_t *offset = t->offsets, *end = offset + (t->all - first < TAPS ? t->all - first : TAPS);
        for (; offset < end; offset++, w += 64) {
            const uint8_t *from = at + *offset;
            __m512i four[4];
            LB_UNROLL
            for (int n = 0; n < wide; n++)
                four[n] = _mm512_load_si512(w + n * panel);
#pragma GCC unroll 16
            for (int i = 0; i < count; i++) {
                int32_t bytes;
                memcpy(&bytes, from + i * apart, 4);
                const __m512i a = _mm512_set1_epi32(bytes);
                LB_UNROLL
                for (int n = 0; n < wide; n++)
                    c[wide * i + n] = lb_dpbusd512(c[wide * i + n], a, four[n]);
            }
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < count; i += 4 / wide) {
        if (i >= many)
            break;
        const __m512i bytes = lb_requantize64(wide, c + wide * i, e->multiplier, &e->clamp);
        lb_store_pixels(wide, bytes, out + (ptrdiff_t)i * p->out_stride, p->out_stride, many - i, e->exist);
    }
}

#define PIXELS(count, wide)                                                                                                                \
    static void pixels##wide(const lb_conv_few_channels_s8_params *p, const strip *s, taps *t, const uint8_t *at, const int8_t *w,         \
                             const epilogue *e, int8_t *out, int32_t many) {                                                               \
        pixels(count, wide, p, s, t, at, w, e, out, many);                                                                                 \
    }
PIXELS(16, 1)
PIXELS(8, 2)
PIXELS(6, 4)

typedef void pixels_fn(const lb_conv_few_channels_s8_params *p, const strip *s, taps *t, const uint8_t *at, const int8_t *w,
                       const epilogue *e, int8_t *out, int32_t many);

/* A row of the output, 16 * wide channels. */
static void row_of_pixels(const lb_conv_few_channels_s8_params *p, pixels_fn *f, int32_t count, const strip *s, taps *t, const uint8_t *at,
                          const int8_t *w, const epilogue *e, int8_t *out) {
    for (int32_t column = 0; column < p->out_w; column += count) {
        const int32_t left = p->out_w - column, back = left < count && column ? count - left : 0; /* the last are done with some before */
        const ptrdiff_t from = column - back;
        f(p, s, t, at + from * p->stride_w * p->in_c, w, e, out + from * p->out_stride, left + back);
    }
}

static epilogue epilogue_of(const lb_conv_few_channels_s8_params *p, const int32_t *sums, const int32_t *bias, const float *multiplier,
                            int32_t width) {
    epilogue e = {.clamp = lb_clamp64_of(p->y_zero, p->lo, p->hi), .exist = lb_first64(width)};
    const __m512i zero = _mm512_set1_epi32(p->x_zero + 128);
    for (int n = 0; n * LANES < width; n++) {
        const __mmask16 some = (__mmask16)(e.exist >> (n * LANES));
        const __m512i sum = _mm512_load_si512(sums + n * LANES);
        e.start[n] = _mm512_sub_epi32(_mm512_maskz_loadu_epi32(some, bias + n * LANES), _mm512_mullo_epi32(sum, zero));
        e.multiplier[n] = _mm512_maskz_loadu_ps(some, multiplier + n * LANES);
    }
    return e;
}

void lb_conv_few_channels_s8__avx512vnni(const lb_conv_few_channels_s8_params *p, const int8_t *x, const void *w, const int32_t *bias,
                                         const float *multiplier, int8_t *out, void *scratch, int32_t begin, int32_t end) {
    const strip s = strip_of(p, scratch);
    const int32_t panels = (p->out_c + LANES - 1) / LANES;
    taps t = {.all = p->kernel_h * ((p->kernel_w * p->in_c + 3) / 4)};
    find_taps(p, 4, s.pitch, 0, &t);
    const int32_t *sums = w;
    const int8_t *fours = (const int8_t *)w + 64 * (ptrdiff_t)panels;
    for (int32_t item = begin, rows; item < end; item += rows) {
        const row_block b = row_block_at(p, x, item, end);
        rows = b.rows;
        for (int32_t i = 0; i < b.high; i++)
            widen(&s, row_of_block(p, &b, i), p->x_zero, s.rows + i * s.pitch);
        for (int32_t n = 0, wide; n < panels; n += wide) {
            wide = panels - n >= 4 ? 4 : panels - n >= 2 ? 2 : 1;
            const int32_t c = n * LANES, width = p->out_c - c < wide * LANES ? p->out_c - c : wide * LANES;
            const epilogue e = epilogue_of(p, sums + c, bias + c, multiplier + c, width);
            for (int32_t i = 0; i < rows; i++)
                row_of_pixels(p,
                              wide == 4   ? pixels4
                              : wide == 2 ? pixels2
                                          : pixels1,
                              wide == 4   ? 6
                              : wide == 2 ? 8
                                          : 16,
                              &s, &t, s.rows + i * p->stride_h * s.pitch, fours + n * 64 * (ptrdiff_t)t.all, &e,
                              out + (ptrdiff_t)(item + i) * p->out_w * p->out_stride + c);
        }
    }
}
