#include "base/numerics.h"
#include "lb.h"

#include <stddef.h>

/* a * b for b >= 0 by shifts and additions. */
static inline ptrdiff_t lb_log_times(ptrdiff_t a, int32_t b) {
    size_t sum = 0, step = (size_t)a;
    for (uint32_t rest = (uint32_t)b; rest; rest >>= 1, step <<= 1)
        sum += rest & 1 ? step : 0;
    return (ptrdiff_t)sum;
}

/* Elements of the input from line to line, from tap to tap, and from window to window; bytes of weights of a channel. */
typedef struct {
    ptrdiff_t line, image, tap_row, tap_column, window, weights;
} lb_log_steps;

static inline lb_log_steps lb_log_steps_of(const lb_conv_log_s8_params *p) {
    lb_log_steps s;
    s.line = lb_log_times(p->in_c, p->in_w);
    s.image = lb_log_times(s.line, p->in_h);
    s.tap_row = lb_log_times(s.line, p->dilation_h);
    s.tap_column = lb_log_times(p->in_c, p->dilation_w);
    s.window = lb_log_times(p->in_c, p->stride_w);
    s.weights = (lb_log_times(lb_log_times(p->depth, p->kernel_w), p->kernel_h) + 1) >> 1;
    return s;
}

/* bias + sum of (x - x_zero) * w of one channel for the window at (top, left), `at` elements from x. Modulo 2^32. */
static inline int32_t lb_log_acc(const lb_conv_log_s8_params *p, const lb_log_steps *s, const int8_t *x, const uint8_t *w, int32_t bias,
                                 int32_t top, int32_t left, ptrdiff_t at) {
    uint32_t acc = (uint32_t)bias;
    int32_t nibble = 0;
    for (int32_t i = 0; i < p->kernel_h; i++, top += p->dilation_h, at += s->tap_row) {
        ptrdiff_t tap = at;
        int32_t column = left;
        for (int32_t j = 0; j < p->kernel_w; j++, column += p->dilation_w, tap += s->tap_column) {
            if (top < 0 || top >= p->in_h || column < 0 || column >= p->in_w) {
                nibble += p->depth;
                continue;
            }
            for (int32_t c = 0; c < p->depth; c++, nibble++) {
                const uint32_t code = (uint32_t)w[nibble >> 1] >> ((nibble & 1) << 2) & 15, power = code & 7;
                const uint32_t v = (uint32_t)(x[tap + c] - p->x_zero) << (power - (power != 0));
                acc += power == 0 ? 0 : code & 8 ? 0 - v : v;
            }
        }
    }
    return (int32_t)acc;
}

/* out = `of`, an expression of the accumulator `acc` of channel c, for every result of the items. */
#define LB_LOG_EACH(of)                                                                                                                    \
    const lb_log_steps s = lb_log_steps_of(p);                                                                                             \
    const ptrdiff_t width = lb_log_times(p->out_stride, p->out_w);                                                                         \
    int32_t row = begin;                                                                                                                   \
    ptrdiff_t image = 0;                                                                                                                   \
    for (; row >= p->out_h && begin < end; row -= p->out_h)                                                                                \
        image += s.image;                                                                                                                  \
    out += lb_log_times(width, begin);                                                                                                     \
    for (int32_t item = begin; item < end; item++) {                                                                                       \
        const int32_t top = (int32_t)lb_log_times(p->stride_h, row) - p->pad_h;                                                            \
        ptrdiff_t at = image + lb_log_times(s.line, (int32_t)lb_log_times(p->stride_h, row)) - lb_log_times(s.line, p->pad_h) -            \
                       lb_log_times(p->in_c, p->pad_w);                                                                                    \
        int32_t left = -p->pad_w;                                                                                                          \
        for (int32_t o = 0; o < p->out_w; o++, left += p->stride_w, at += s.window, out += p->out_stride - p->out_c) {                     \
            const uint8_t *weights = w;                                                                                                    \
            ptrdiff_t group = at;                                                                                                          \
            for (int32_t c = 0, member = 0; c < p->out_c; c++, weights += s.weights) {                                                     \
                const int32_t acc = lb_log_acc(p, &s, x, weights, bias[c], top, left, group);                                              \
                *out++ = of;                                                                                                               \
                if (++member == p->each)                                                                                                   \
                    member = 0, group += p->depth;                                                                                         \
            }                                                                                                                              \
        }                                                                                                                                  \
        if (++row == p->out_h)                                                                                                             \
            row = 0, image += s.image;                                                                                                     \
    }

/* rne(acc * 2^-shift). */
static inline int32_t lb_log_rounded(int32_t acc, int32_t shift) {
    if (shift <= 0)
        return (int32_t)((uint32_t)acc << -shift);
    const int32_t floor = acc < 0 ? ~(~acc >> shift) : acc >> shift, half = (int32_t)1 << (shift - 1);
    const int32_t rest = acc - (int32_t)((uint32_t)floor << shift);
    return floor + (rest > half || (rest == half && (floor & 1)));
}

static inline int8_t lb_log_clamped(int32_t v, int32_t lo, int32_t hi) {
    return (int8_t)(v < lo ? lo : v > hi ? hi : v);
}

lb_conv_log_s8_fn lb_conv_log_s8__ref;

void lb_conv_log_s8__ref(const lb_conv_log_s8_params *p, const int8_t *x, const uint8_t *w, const int32_t *bias, const lb_f32 *multiplier,
                         int8_t *out, int32_t begin,
                         int32_t end){LB_LOG_EACH((int8_t)lb_requantize(acc, multiplier[c], p -> y_zero, p->lo, p->hi))}

lb_conv_log_f32_fn lb_conv_log_f32__ref;

void lb_conv_log_f32__ref(const lb_conv_log_f32_params *p, const int8_t *x, const uint8_t *w, const int32_t *bias, const lb_f32 *multiplier,
                          lb_f32 *out, int32_t begin, int32_t end){LB_LOG_EACH(lb_f32_mul(lb_f32_from_s32(acc), multiplier[c]))}

lb_conv_shift_s8_fn lb_conv_shift_s8__ref;

void lb_conv_shift_s8__ref(const lb_conv_shift_s8_params *p, const int8_t *x, const uint8_t *w, const int32_t *bias, const int32_t *shift,
                           int8_t *out, int32_t begin, int32_t end) {
    LB_LOG_EACH(lb_log_clamped(lb_log_rounded(acc, shift[c]) + p->y_zero, p->lo, p->hi))
}
