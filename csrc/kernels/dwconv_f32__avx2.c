#include "lb.h"
#include "lb_float.h"
#include "lb_tile_f32_avx2.h"
#include "lb_window.h"

lb_dwconv_f32_fn lb_dwconv_f32__avx2;

enum { PIXELS = 4 };

/* A row of the output, and what its windows have in common. */
typedef struct {
    const lb_dwconv_f32_params *p;
    const float *image, *w, *bias;
    float *out;
    lb_taps rows;
    int32_t top;
} line;

/* `pixels` neighbours from column o on, whose windows have the same taps; `vectors` times 8 channels from c on. The weights of a tap are
 * read once for all pixels. */
__attribute__((always_inline)) static inline void tile(const line *l, const int pixels, const int vectors, int32_t o, lb_taps columns,
                                                       int32_t c) {
    const lb_dwconv_f32_params *p = l->p;
    const ptrdiff_t next = (ptrdiff_t)p->stride_w * p->channels;
    const ptrdiff_t start = ((ptrdiff_t)l->top * p->in_w + (ptrdiff_t)o * p->stride_w - p->pad_w) * p->channels + c;
    __m256 s[PIXELS][2];
#pragma GCC unroll 4
    for (int i = 0; i < pixels; i++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            s[i][v] = _mm256_loadu_ps(l->bias + c + 8 * v);
    for (int32_t r = l->rows.first; r < l->rows.last; r++) {
        const float *from =
            l->image + (start + ((ptrdiff_t)r * p->dilation_h * p->in_w + (ptrdiff_t)columns.first * p->dilation_w) * p->channels);
        const float *w = l->w + ((ptrdiff_t)r * p->kernel_w + columns.first) * p->channels + c;
        for (int32_t j = columns.first; j < columns.last; j++, from += (ptrdiff_t)p->dilation_w * p->channels, w += p->channels) {
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) {
                const __m256 weight = _mm256_loadu_ps(w + 8 * v);
#pragma GCC unroll 4
                for (int i = 0; i < pixels; i++)
                    s[i][v] = _mm256_fmadd_ps(_mm256_loadu_ps(from + i * next + 8 * v), weight, s[i][v]);
            }
        }
    }
    const __m256 lo = _mm256_set1_ps(p->lo), hi = _mm256_set1_ps(p->hi);
#pragma GCC unroll 4
    for (int i = 0; i < pixels; i++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            _mm256_storeu_ps(l->out + (ptrdiff_t)(o + i) * p->out_stride + c + 8 * v, lb_clamp_ps(s[i][v], lo, hi));
}

static float one(const line *l, int32_t o, lb_taps columns, int32_t c) {
    const lb_dwconv_f32_params *p = l->p;
    const ptrdiff_t start = ((ptrdiff_t)l->top * p->in_w + (ptrdiff_t)o * p->stride_w - p->pad_w) * p->channels + c;
    __m128 sum = _mm_set_ss(l->bias[c]);
    for (int32_t r = l->rows.first; r < l->rows.last; r++)
        for (int32_t j = columns.first; j < columns.last; j++)
            sum = _mm_fmadd_ss(
                _mm_set_ss(l->image[start + ((ptrdiff_t)r * p->dilation_h * p->in_w + (ptrdiff_t)j * p->dilation_w) * p->channels]),
                _mm_set_ss(l->w[((ptrdiff_t)r * p->kernel_w + j) * p->channels + c]), sum);
    return lb_clampf(_mm_cvtss_f32(sum), p->lo, p->hi);
}

void lb_dwconv_f32__avx2(const lb_dwconv_f32_params *p, const float *x, const float *w, const float *bias, float *out, int32_t begin,
                         int32_t end) {
    /* Columns inner ... outer - 1 have all taps of their window inside. */
    const int32_t inner = (p->pad_w + p->stride_w - 1) / p->stride_w, reach = p->in_w + p->pad_w - (p->kernel_w - 1) * p->dilation_w;
    const int32_t full = reach > 0 ? (reach + p->stride_w - 1) / p->stride_w : 0, outer = full < p->out_w ? full : p->out_w;
    for (int32_t item = begin; item < end; item++) {
        line l = {.p = p, .image = x + (ptrdiff_t)(item / p->out_h) * p->in_h * p->in_w * p->channels, .w = w, .bias = bias};
        l.top = item % p->out_h * p->stride_h - p->pad_h;
        l.rows = lb_taps_inside(l.top, p->kernel_h, p->dilation_h, 0, p->in_h);
        l.out = out + (ptrdiff_t)item * p->out_w * p->out_stride;
        for (int32_t o = 0; o < p->out_w;) {
            const lb_taps columns = lb_taps_inside(o * p->stride_w - p->pad_w, p->kernel_w, p->dilation_w, 0, p->in_w);
            const int four = o >= inner && o + PIXELS <= outer;
            int32_t c = 0;
            if (four) {
                for (; c <= p->channels - 16; c += 16)
                    tile(&l, PIXELS, 2, o, columns, c);
                for (; c <= p->channels - 8; c += 8)
                    tile(&l, PIXELS, 1, o, columns, c);
            } else {
                for (; c <= p->channels - 16; c += 16)
                    tile(&l, 1, 2, o, columns, c);
                for (; c <= p->channels - 8; c += 8)
                    tile(&l, 1, 1, o, columns, c);
            }
            const int32_t next = o + (four ? PIXELS : 1);
            for (; c < p->channels; c++)
                for (int32_t i = o; i < next; i++)
                    l.out[(ptrdiff_t)i * p->out_stride + c] = one(&l, i, columns, c);
            o = next;
        }
    }
}
