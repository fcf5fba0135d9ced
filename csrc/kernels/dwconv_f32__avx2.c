#include "lb.h"
#include "lb_float.h"
#include "lb_tile_f32_avx2.h"
#include "lb_window.h"

lb_dwconv_f32_fn lb_dwconv_f32__avx2;

enum { PIXELS = 8 };

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
    __m256 s[4][2];
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

/* The same of all channels (8 or more) for windows of `kernel` columns, all inside and without dilation: what is read of the image is read
 * once for a row of taps, and meets each of them in turn. Sums go through the taps in the same order. The last 8 channels may be computed
 * twice in part. */
__attribute__((always_inline)) static inline void slide(const line *l, const int pixels, const int kernel, const int stride, int32_t o) {
    const lb_dwconv_f32_params *p = l->p;
    const ptrdiff_t channels = p->channels, down = (ptrdiff_t)p->dilation_h * p->in_w * channels, out_stride = p->out_stride;
    const int32_t high = l->rows.last - l->rows.first;
    const ptrdiff_t row = (ptrdiff_t)l->top + (ptrdiff_t)l->rows.first * p->dilation_h;
    const float *start = l->image + (row * p->in_w + (ptrdiff_t)o * stride - p->pad_w) * channels;
    const float *weights = l->w + (ptrdiff_t)l->rows.first * kernel * channels, *biases = l->bias;
    float *out = l->out + o * out_stride;
    const __m256 lo = _mm256_set1_ps(p->lo), hi = _mm256_set1_ps(p->hi);
    for (ptrdiff_t at = 0; at < channels; at += 8) {
        const ptrdiff_t c = at <= channels - 8 ? at : channels - 8;
        const float *from = start + c, *w = weights + c;
        const __m256 bias = _mm256_loadu_ps(biases + c);
        __m256 s[PIXELS], taps[5];
#pragma GCC unroll 8
        for (int i = 0; i < pixels; i++)
            s[i] = bias;
        for (int32_t r = high; r > 0; r--, from += down, w += kernel * channels) {
#pragma GCC unroll 5
            for (int j = 0; j < kernel; j++)
                taps[j] = _mm256_loadu_ps(w + j * channels);
#pragma GCC unroll 19
            for (int column = 0; column < (pixels - 1) * stride + kernel; column++) {
                const __m256 v = _mm256_loadu_ps(from + column * channels);
#pragma GCC unroll 5
                for (int j = 0; j < kernel; j++)
                    if (column >= j && (column - j) % stride == 0 && (column - j) / stride < pixels)
                        s[(column - j) / stride] = _mm256_fmadd_ps(v, taps[j], s[(column - j) / stride]);
            }
        }
#pragma GCC unroll 8
        for (int i = 0; i < pixels; i++)
            _mm256_storeu_ps(out + i * out_stride + c, lb_clamp_ps(s[i], lo, hi));
    }
}

#define SLIDE(pixels, kernel, stride)                                                                                                      \
    __attribute__((noinline)) static void slide_##pixels##_##kernel##_##stride(const line *l, int32_t o) {                                 \
        slide(l, pixels, kernel, stride, o);                                                                                               \
    }
SLIDE(8, 3, 1)
SLIDE(8, 3, 2)
SLIDE(8, 5, 1)
SLIDE(8, 5, 2)
SLIDE(4, 3, 1)
SLIDE(4, 3, 2)
SLIDE(4, 5, 1)
SLIDE(4, 5, 2)

typedef void slide_fn(const line *l, int32_t o);

/* Tiles of 8 and of 4 pixels of all channels, if there are such for these windows. */
typedef struct {
    slide_fn *eight, *four;
} slides;

static slides slides_of(const lb_dwconv_f32_params *p) {
    static const slides known[2][2] = {{{slide_8_3_1, slide_4_3_1}, {slide_8_3_2, slide_4_3_2}},
                                       {{slide_8_5_1, slide_4_5_1}, {slide_8_5_2, slide_4_5_2}}};
    if ((p->kernel_w != 3 && p->kernel_w != 5) || p->stride_w > 2 || p->dilation_w != 1 || p->channels < 8)
        return (slides){0};
    return known[p->kernel_w == 5][p->stride_w - 1];
}

/* The channels of 1 or 4 pixels from column o on, whose windows have the same taps. */
static void any(const line *l, int32_t pixels, int32_t o, lb_taps columns) {
    const int32_t channels = l->p->channels;
    int32_t c = 0;
    if (pixels == 4) {
        for (; c <= channels - 16; c += 16)
            tile(l, 4, 2, o, columns, c);
        for (; c <= channels - 8; c += 8)
            tile(l, 4, 1, o, columns, c);
    } else {
        for (; c <= channels - 16; c += 16)
            tile(l, 1, 2, o, columns, c);
        for (; c <= channels - 8; c += 8)
            tile(l, 1, 1, o, columns, c);
    }
    for (; c < channels; c++)
        for (int32_t i = o; i < o + pixels; i++)
            l->out[(ptrdiff_t)i * l->p->out_stride + c] = one(l, i, columns, c);
}

void lb_dwconv_f32__avx2(const lb_dwconv_f32_params *p, const float *x, const float *w, const float *bias, float *out, int32_t begin,
                         int32_t end) {
    /* Columns inner ... outer - 1 have all taps of their window inside. */
    const int32_t inner = (p->pad_w + p->stride_w - 1) / p->stride_w, reach = p->in_w + p->pad_w - (p->kernel_w - 1) * p->dilation_w;
    const int32_t full = reach > 0 ? (reach + p->stride_w - 1) / p->stride_w : 0, outer = full < p->out_w ? full : p->out_w;
    const slides sliding = slides_of(p);
    for (int32_t item = begin; item < end; item++) {
        line l = {.p = p, .image = x + (ptrdiff_t)(item / p->out_h) * p->in_h * p->in_w * p->channels, .w = w, .bias = bias};
        l.top = item % p->out_h * p->stride_h - p->pad_h;
        l.rows = lb_taps_inside(l.top, p->kernel_h, p->dilation_h, 0, p->in_h);
        l.out = out + (ptrdiff_t)item * p->out_w * p->out_stride;
        for (int32_t o = 0, pixels; o < p->out_w; o += pixels) {
            const int32_t same = o >= inner ? outer - o : 0;
            pixels = same >= 8 && sliding.eight ? 8 : same >= 4 ? 4 : 1;
            if (pixels == 8)
                sliding.eight(&l, o);
            else if (pixels == 4 && sliding.four)
                sliding.four(&l, o);
            else
                any(&l, pixels, o, lb_taps_inside(o * p->stride_w - p->pad_w, p->kernel_w, p->dilation_w, 0, p->in_w));
        }
    }
}
