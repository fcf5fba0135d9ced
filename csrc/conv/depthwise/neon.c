/* 16 channels of a pixel at once. Products of bytes fit 16 bits, and so do sums of two of them where no weight is -128:
 * 2 * 128 * 127 < 2^15. Sums of the taps that are inside the image begin at bias - x_zero * (sum of the weights of those taps), modulo
 * 2^32: the same for all pixels of a row whose windows stick out at neither side. */
#include "lb.h"
#include "base/numerics.h"
#include "base/requantize_neon.h"
#include "base/window.h"

lb_dwconv_s8_fn lb_dwconv_s8__neon;

/* The taps that a pixel has inside the image: where they and their weights begin, and how to get from one to the next. */
typedef struct {
    const int8_t *x, *w;
    int32_t high, wide;
    ptrdiff_t across, down; /* from tap to tap, from row to row */
    ptrdiff_t w_across, w_down;
} taps;

static inline void add_products(int32x4_t acc[4], int16x8_t low, int16x8_t high) {
    acc[0] = vaddw_s16(acc[0], vget_low_s16(low)), acc[1] = vaddw_high_s16(acc[1], low);
    acc[2] = vaddw_s16(acc[2], vget_low_s16(high)), acc[3] = vaddw_high_s16(acc[3], high);
}

/* acc += x * w of 16 channels. */
static inline void add_taps(const taps *t, int32_t c, int lowest, int32x4_t acc[4]) {
    for (int32_t i = 0; i < t->high; i++) {
        const int8_t *x = t->x + i * t->down + c, *w = t->w + i * t->w_down + c;
        int32_t j = 0;
        for (; j + 2 <= t->wide && !lowest; j += 2, x += 2 * t->across, w += 2 * t->w_across) {
            const int8x16_t a = vld1q_s8(x), b = vld1q_s8(w), d = vld1q_s8(x + t->across), e = vld1q_s8(w + t->w_across);
            const int16x8_t low = vmlal_s8(vmull_s8(vget_low_s8(a), vget_low_s8(b)), vget_low_s8(d), vget_low_s8(e));
            add_products(acc, low, vmlal_high_s8(vmull_high_s8(a, b), d, e));
        }
        for (; j < t->wide; j++, x += t->across, w += t->w_across) {
            const int8x16_t a = vld1q_s8(x), b = vld1q_s8(w);
            add_products(acc, vmull_s8(vget_low_s8(a), vget_low_s8(b)), vmull_high_s8(a, b));
        }
    }
}

/* bias - x_zero * (sum of the weights) of 16 channels. */
static inline void start_at(const taps *t, int32_t c, const int32_t *bias, int32_t x_zero, int32x4_t acc[4]) {
    int16x8_t low = vdupq_n_s16(0), high = low;
    for (int32_t i = 0; i < t->high; i++)
        for (int32_t j = 0; j < t->wide; j++) {
            const int8x16_t w = vld1q_s8(t->w + i * t->w_down + j * t->w_across + c);
            low = vaddw_s8(low, vget_low_s8(w)), high = vaddw_high_s8(high, w);
        }
    const int16_t z = (int16_t)x_zero;
    acc[0] = vmlsl_n_s16(vld1q_s32(bias + c), vget_low_s16(low), z), acc[1] = vmlsl_high_n_s16(vld1q_s32(bias + c + 4), low, z);
    acc[2] = vmlsl_n_s16(vld1q_s32(bias + c + 8), vget_low_s16(high), z), acc[3] = vmlsl_high_n_s16(vld1q_s32(bias + c + 12), high, z);
}

static inline void one_channel(const lb_dwconv_s8_params *p, const taps *t, int32_t c, int32_t bias, float multiplier, int8_t *to) {
    uint32_t acc = (uint32_t)bias;
    for (int32_t i = 0; i < t->high; i++)
        for (int32_t j = 0; j < t->wide; j++)
            acc += (uint32_t)((t->x[i * t->down + j * t->across + c] - p->x_zero) * t->w[i * t->w_down + j * t->w_across + c]);
    to[c] = (int8_t)lb_requantize((int32_t)acc, multiplier, p->y_zero, p->lo, p->hi);
}

static taps taps_at(const lb_dwconv_s8_params *p, const int8_t *image, const int8_t *w, int32_t top, lb_taps rows, int32_t left) {
    const int inside = left >= 0 && left + (p->kernel_w - 1) * p->dilation_w < p->in_w;
    const lb_taps columns = inside ? (lb_taps){0, p->kernel_w} : lb_taps_inside(left, p->kernel_w, p->dilation_w, 0, p->in_w);
    const ptrdiff_t channels = p->channels, across = p->dilation_w * channels, down = (ptrdiff_t)p->dilation_h * p->in_w * channels;
    const int32_t wide = columns.last - columns.first, high = wide ? rows.last - rows.first : 0;
    if (!high)
        return (taps){image, w, 0, 0, 0, 0, 0, 0};
    const ptrdiff_t row = top + rows.first * p->dilation_h, column = left + columns.first * p->dilation_w;
    return (taps){image + (row * p->in_w + column) * channels,
                  w + ((ptrdiff_t)rows.first * p->kernel_w + columns.first) * channels,
                  high,
                  wide,
                  across,
                  down,
                  channels,
                  p->kernel_w * channels};
}

void lb_dwconv_s8__neon(const lb_dwconv_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier,
                        int8_t *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    const int8_t *weights = w;
    const lb_clamp16 clamp = lb_clamp16_of(p->y_zero, p->lo, p->hi);
    const int plain = p->kernel_h * p->kernel_w > 255; /* more weights than 16 bits hold the sum of: one channel at a time */
    int lowest = 0;
    for (ptrdiff_t i = 0; i < (ptrdiff_t)p->kernel_h * p->kernel_w * p->channels && begin < end; i++)
        lowest |= weights[i] == -128;
    for (int32_t item = begin; item < end; item++) {
        const int8_t *image = x + (ptrdiff_t)(item / p->out_h) * p->in_h * p->in_w * p->channels;
        const int32_t top = item % p->out_h * p->stride_h - p->pad_h;
        const lb_taps rows = lb_taps_inside(top, p->kernel_h, p->dilation_h, 0, p->in_h);
        int32_t c = 0;
        for (; c + 16 <= p->channels && !plain; c += 16) {
            int8_t *to = out + (ptrdiff_t)item * p->out_w * p->out_stride + c;
            const float32x4_t m[4] = {vld1q_f32(multiplier + c), vld1q_f32(multiplier + c + 4), vld1q_f32(multiplier + c + 8),
                                      vld1q_f32(multiplier + c + 12)};
            const taps all = {image,
                              weights + (ptrdiff_t)rows.first * p->kernel_w * p->channels,
                              rows.last - rows.first,
                              p->kernel_w,
                              0,
                              0,
                              p->channels,
                              (ptrdiff_t)p->kernel_w * p->channels};
            int32x4_t whole[4];
            start_at(&all, c, bias, p->x_zero, whole);
            for (int32_t o = 0; o < p->out_w; o++, to += p->out_stride) {
                const taps t = taps_at(p, image, weights, top, rows, o * p->stride_w - p->pad_w);
                int32x4_t acc[4] = {whole[0], whole[1], whole[2], whole[3]};
                float32x4_t y[4];
                if (t.wide != p->kernel_w)
                    start_at(&t, c, bias, p->x_zero, acc);
                add_taps(&t, c, lowest, acc);
                for (int i = 0; i < 4; i++)
                    y[i] = vmulq_f32(vcvtq_f32_s32(acc[i]), m[i]);
                vst1q_s8(to, lb_round16(y, &clamp));
            }
        }
        for (; c < p->channels; c++)
            for (int32_t o = 0; o < p->out_w; o++) {
                const taps t = taps_at(p, image, weights, top, rows, o * p->stride_w - p->pad_w);
                one_channel(p, &t, c, bias[c], multiplier[c], out + ((ptrdiff_t)item * p->out_w + o) * p->out_stride);
            }
    }
}
