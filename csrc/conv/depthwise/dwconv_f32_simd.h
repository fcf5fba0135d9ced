/* dwconv_f32 on vectors of any width: the words of f32_avx2.h or another stand before this. */
#ifndef LB_DWCONV_F32_SIMD_H
#define LB_DWCONV_F32_SIMD_H

#include "lb.h"
#include "base/window.h"

#include <stddef.h>

enum { MOST = 14, HIGH = 4 }; /* pixels of a row and rows that are computed together */

/* A row of the output, and what its windows have in common. */
typedef struct {
    const lb_dwconv_f32_params *p;
    const float *image, *w, *bias;
    float *out;
    lb_taps rows;
    int32_t top;
} line;

/* A vector from c on, of which in the last one only so many channels exist. */
#define READ(from) (last ? lb_v_get(from, p->channels - c, 0.0f) : lb_v_load(from))

/* `pixels` neighbours from column o on, whose windows have the same taps; `vectors` LB_LANES channels from c on, or the `last` ones alone
 * if there are not as many. The weights of a tap are read once for all pixels. */
__attribute__((always_inline)) static inline void tile(const line *l, const int pixels, const int vectors, const int last, int32_t o,
                                                       lb_taps columns, int32_t c) {
    const lb_dwconv_f32_params *p = l->p;
    const ptrdiff_t next = (ptrdiff_t)p->stride_w * p->channels;
    const ptrdiff_t start = ((ptrdiff_t)l->top * p->in_w + (ptrdiff_t)o * p->stride_w - p->pad_w) * p->channels + c;
    lb_v s[4][2];
#pragma GCC unroll 4
    for (int i = 0; i < pixels; i++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            s[i][v] = READ(l->bias + c + LB_LANES * v);
    for (int32_t r = l->rows.first; r < l->rows.last; r++) {
        const float *from =
            l->image + (start + ((ptrdiff_t)r * p->dilation_h * p->in_w + (ptrdiff_t)columns.first * p->dilation_w) * p->channels);
        const float *w = l->w + ((ptrdiff_t)r * p->kernel_w + columns.first) * p->channels + c;
        for (int32_t j = columns.first; j < columns.last; j++, from += (ptrdiff_t)p->dilation_w * p->channels, w += p->channels) {
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) {
                const lb_v weight = READ(w + LB_LANES * v);
#pragma GCC unroll 4
                for (int i = 0; i < pixels; i++)
                    s[i][v] = lb_v_fma(READ(from + i * next + LB_LANES * v), weight, s[i][v]);
            }
        }
    }
    const lb_v lo = lb_v_all(p->lo), hi = lb_v_all(p->hi);
#pragma GCC unroll 4
    for (int i = 0; i < pixels; i++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            if (last)
                lb_v_put(l->out + (ptrdiff_t)(o + i) * p->out_stride + c, LB_V(clamp)(s[i][v], lo, hi), p->channels - c);
            else
                lb_v_store(l->out + (ptrdiff_t)(o + i) * p->out_stride + c + LB_LANES * v, LB_V(clamp)(s[i][v], lo, hi));
}

/* Rows of the output that are computed together: what one of them reads of the image the next finds in the cache. */
typedef struct {
    const lb_dwconv_f32_params *p;
    const float *image, *w, *bias;
    float *out; /* the first row */
    int32_t count;
    struct {
        ptrdiff_t from, weights; /* where the first tap of the row's windows that is inside stands in the image and among the weights */
        int32_t high;            /* rows of taps inside */
    } rows[HIGH];
} band;

/* All channels (LB_LANES or more) of `pixels` of each row from column o on, of windows without dilation of `kernel` columns, which may lie
 * outside if at an `edge`: what is read of the image is read once for a row of taps, and meets each of them in turn. Sums go through the
 * taps in the same order as above. The last vector of channels may be computed twice in part. */
__attribute__((always_inline)) static inline void slide(const band *b, const int pixels, const int kernel, const int stride, const int edge,
                                                        int32_t o) {
    const lb_dwconv_f32_params *p = b->p;
    const ptrdiff_t channels = p->channels, down = (ptrdiff_t)p->dilation_h * p->in_w * channels, out_stride = p->out_stride;
    const ptrdiff_t next = p->out_w * out_stride;
    const int32_t left = o * stride - p->pad_w, right = p->in_w - left, count = b->count;
    const lb_v lo = lb_v_all(p->lo), hi = lb_v_all(p->hi);
    const float *image = b->image;
    for (ptrdiff_t start = 0; start < channels; start += LB_LANES) {
        const ptrdiff_t c = start <= channels - LB_LANES ? start : channels - LB_LANES;
        const lb_v bias = lb_v_load(b->bias + c);
        float *out = b->out + o * out_stride + c;
        for (int32_t row = 0; row < count; row++, out += next) {
            ptrdiff_t at = b->rows[row].from + left * channels + c;
            const float *w = b->w + b->rows[row].weights + c;
            lb_v s[MOST], taps[5];
#pragma GCC unroll 14
            for (int i = 0; i < pixels; i++)
                s[i] = bias;
            for (int32_t r = b->rows[row].high; r > 0; r--, at += down, w += kernel * channels) {
#pragma GCC unroll 5
                for (int j = 0; j < kernel; j++)
                    taps[j] = lb_v_load(w + j * channels);
                ptrdiff_t from = at;
#pragma GCC unroll 31
                for (int column = 0; column < (pixels - 1) * stride + kernel; column++, from += channels) {
                    __asm__("" : "+r"(from)); /* else the compiler makes an index for each column, which have no registers */
                    if (edge && (column < -left || column >= right))
                        continue;
                    const lb_v v = lb_v_load(image + from);
#pragma GCC unroll 5
                    for (int j = 0; j < kernel; j++)
                        if (column >= j && (column - j) % stride == 0 && (column - j) / stride < pixels)
                            s[(column - j) / stride] = lb_v_fma(v, taps[j], s[(column - j) / stride]);
                }
            }
            float *to = out;
#pragma GCC unroll 14
            for (int i = 0; i < pixels; i++, to += out_stride)
                lb_v_store(to, LB_V(clamp)(s[i], lo, hi));
        }
    }
}

typedef void slide_fn(const band *b, int32_t o);

/* Functions for `pixels` at once: of windows of 3 or 5 columns, of stride 1 or 2, inside or at an edge. */
typedef struct {
    int32_t pixels;
    slide_fn *of[2][2][2];
} slides;

#define SLIDE(pixels, kernel, stride, edge)                                                                                                \
    __attribute__((noinline)) static void slide_##pixels##_##kernel##_##stride##_##edge(const band *b, int32_t o) {                        \
        slide(b, pixels, kernel, stride, edge, o);                                                                                         \
    }
#define SLIDE_EACH(pixels)                                                                                                                 \
    SLIDE(pixels, 3, 1, 0)                                                                                                                 \
    SLIDE(pixels, 3, 1, 1)                                                                                                                 \
    SLIDE(pixels, 3, 2, 0)                                                                                                                 \
    SLIDE(pixels, 3, 2, 1)                                                                                                                 \
    SLIDE(pixels, 5, 1, 0)                                                                                                                 \
    SLIDE(pixels, 5, 1, 1)                                                                                                                 \
    SLIDE(pixels, 5, 2, 0)                                                                                                                 \
    SLIDE(pixels, 5, 2, 1)
#define SLIDES(n)                                                                                                                          \
    {                                                                                                                                      \
        n, {                                                                                                                               \
            {{slide_##n##_3_1_0, slide_##n##_3_1_1}, {slide_##n##_3_2_0, slide_##n##_3_2_1}}, {                                            \
                {slide_##n##_5_1_0, slide_##n##_5_1_1}, {                                                                                  \
                    slide_##n##_5_2_0, slide_##n##_5_2_1                                                                                   \
                }                                                                                                                          \
            }                                                                                                                              \
        }                                                                                                                                  \
    }
#if LB_LANES == 16
SLIDE_EACH(14)
SLIDE_EACH(7)
SLIDE_EACH(4)
static const slides known[] = {SLIDES(14), SLIDES(7), SLIDES(4)};
#else
SLIDE_EACH(8)
SLIDE_EACH(4)
static const slides known[] = {SLIDES(8), SLIDES(4)};
#endif

/* Those that take least for rows of so many pixels: the last ones of a row may be computed twice. */
static const slides *slides_of(const lb_dwconv_f32_params *p) {
    if ((p->kernel_w != 3 && p->kernel_w != 5) || p->stride_w > 2 || p->dilation_w != 1 || p->channels < LB_LANES)
        return 0;
    const slides *best = 0;
    int32_t least = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const int32_t pixels = known[i].pixels, cost = (p->out_w + pixels - 1) / pixels * (pixels + 2);
        if (p->out_w >= pixels && (!best || cost < least))
            best = known + i, least = cost;
    }
    return best;
}

/* Rows first ... last - 1 of an image. */
static void bands(const lb_dwconv_f32_params *p, const slides *s, band b, int32_t first, int32_t last) {
    const int32_t pixels = s->pixels, most = p->stride_h == 1 ? HIGH : 1; /* windows two rows apart share too little */
    slide_fn *const *of = s->of[p->kernel_w == 5][p->stride_w - 1];
    for (; first < last; first += b.count, b.out += (ptrdiff_t)b.count * p->out_w * p->out_stride) {
        b.count = last - first < most ? last - first : most;
        for (int32_t i = 0; i < b.count; i++) {
            const int32_t top = (first + i) * p->stride_h - p->pad_h;
            const lb_taps rows = lb_taps_inside(top, p->kernel_h, p->dilation_h, 0, p->in_h);
            b.rows[i].from = (ptrdiff_t)(top + rows.first * p->dilation_h) * p->in_w * p->channels;
            b.rows[i].weights = (ptrdiff_t)rows.first * p->kernel_w * p->channels;
            b.rows[i].high = rows.last - rows.first;
        }
        for (int32_t o = 0; o < p->out_w; o += pixels) {
            const int32_t at = o <= p->out_w - pixels ? o : p->out_w - pixels, left = at * p->stride_w - p->pad_w;
            const int edge = left < 0 || left + (pixels - 1) * p->stride_w + p->kernel_w > p->in_w;
            of[edge](&b, at);
        }
    }
}

/* The channels of 1 or 4 pixels from column o on, whose windows have the same taps. */
static void any(const line *l, int32_t pixels, int32_t o, lb_taps columns) {
    const int32_t channels = l->p->channels;
    int32_t c = 0;
    if (pixels == 4) {
        for (; c <= channels - 2 * LB_LANES; c += 2 * LB_LANES)
            tile(l, 4, 2, 0, o, columns, c);
        for (; c <= channels - LB_LANES; c += LB_LANES)
            tile(l, 4, 1, 0, o, columns, c);
        if (c < channels)
            tile(l, 4, 1, 1, o, columns, c);
    } else {
        for (; c <= channels - 2 * LB_LANES; c += 2 * LB_LANES)
            tile(l, 1, 2, 0, o, columns, c);
        for (; c <= channels - LB_LANES; c += LB_LANES)
            tile(l, 1, 1, 0, o, columns, c);
        if (c < channels)
            tile(l, 1, 1, 1, o, columns, c);
    }
}

void LB_SIMD(dwconv_f32)(const lb_dwconv_f32_params *p, const float *x, const float *w, const float *bias, float *out, int32_t begin,
                         int32_t end) {
    const ptrdiff_t in_size = (ptrdiff_t)p->in_h * p->in_w * p->channels;
    const slides *sliding = slides_of(p);
    if (sliding) {
        for (int32_t next; begin < end; begin = next) {
            const int32_t image = begin / p->out_h;
            next = (image + 1) * p->out_h < end ? (image + 1) * p->out_h : end;
            const band b = {p, x + image * in_size, w, bias, out + (ptrdiff_t)begin * p->out_w * p->out_stride, 0, {{0}}};
            bands(p, sliding, b, begin - image * p->out_h, next - image * p->out_h);
        }
        return;
    }
    /* Columns inner ... outer - 1 have all taps of their window inside. */
    const int32_t inner = (p->pad_w + p->stride_w - 1) / p->stride_w, reach = p->in_w + p->pad_w - (p->kernel_w - 1) * p->dilation_w;
    const int32_t full = reach > 0 ? (reach + p->stride_w - 1) / p->stride_w : 0, outer = full < p->out_w ? full : p->out_w;
    for (int32_t item = begin; item < end; item++) {
        line l = {.p = p, .image = x + item / p->out_h * in_size, .w = w, .bias = bias};
        l.top = item % p->out_h * p->stride_h - p->pad_h;
        l.rows = lb_taps_inside(l.top, p->kernel_h, p->dilation_h, 0, p->in_h);
        l.out = out + (ptrdiff_t)item * p->out_w * p->out_stride;
        for (int32_t o = 0, pixels; o < p->out_w; o += pixels) {
            pixels = o >= inner && outer - o >= 4 ? 4 : 1;
            any(&l, pixels, o, lb_taps_inside(o * p->stride_w - p->pad_w, p->kernel_w, p->dilation_w, 0, p->in_w));
        }
    }
}

#endif
