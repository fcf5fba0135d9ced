/* dwconv_s16 on vectors of any width: two taps at a time, whose channels stand side by side. The words of dot2_avx2.h or dot2_avx512vnni.h
 * stand before this. */
#ifndef LB_DWCONV_S16_SIMD_H
#define LB_DWCONV_S16_SIMD_H

#include "lb.h"
#include "wide/conv_s16.h"

#include <string.h>

enum { LB_TAPS_GROUP = 2 * LB_DOT2_LANES, LB_TAPS_MOST = 256 }; /* channels at a time; taps whose sums fit 32 bits whatever they are */

/* The packed weights, and what sums begin with in the order of the lanes. */
typedef struct {
    const int16_t *weights;
    ptrdiff_t step, plane; /* elements from pair to pair, from plane to plane */
    int32_t planes, narrow;
    const int32_t *start;
    const double *real_start; /* where narrow is not 1 */
    const float *m;
    const int16_t *zeros; /* the zero point for every channel */
} lb_taps_weights;

/* Taps of the windows of some pixels: where the first channel of the first pixel's is, and how far that of the next pixel. */
typedef struct {
    const int16_t *from[LB_TAPS_MOST];
    ptrdiff_t next[LB_TAPS_MOST];
    int32_t pairs;
} lb_taps_from;

/* Taps `first` ... of windows that begin at a place; outside the image they are zeros. What stands beside the last of an odd number has
 * weights of 0. */
static inline void lb_taps_find(const lb_dwconv_s16_params *p, const lb_place *at, int32_t first, const int16_t *zeros, lb_taps_from *t) {
    const int32_t all = p->kernel_h * p->kernel_w, count = all - first < LB_TAPS_MOST ? all - first : LB_TAPS_MOST;
    const ptrdiff_t next = (ptrdiff_t)p->stride_w * p->in_c;
    for (int32_t k = 0, i = first / p->kernel_w, j = first % p->kernel_w; k < count; k++) {
        const int32_t row = at->top + i * p->dilation_h, column = at->left + j * p->dilation_w;
        const int inside = row >= 0 && row < p->in_h && column >= 0 && column < p->in_w;
        t->from[k] = inside ? at->image + ((ptrdiff_t)row * p->in_w + column) * p->in_c : zeros;
        t->next[k] = inside ? next : 0;
        if (++j == p->kernel_w)
            i++, j = 0;
    }
    if (count & 1)
        t->from[count] = zeros, t->next[count] = 0;
    t->pairs = (count + 1) / 2;
}

/* sum (two vectors for each pixel) += the products of all pairs of taps with LB_TAPS_GROUP channels from `channel` on, of which `count`
 * are there. */
LB_INLINE void lb_taps_sums(const int pixels, const lb_taps_from *t, ptrdiff_t channel, const int whole, ptrdiff_t count, const int16_t *w,
                            ptrdiff_t step, lb_vec *sum) {
    for (int32_t i = 0; i < t->pairs; i++, w += step) {
        const lb_vec w0 = lb_vec_load(w), w1 = lb_vec_load(w + LB_TAPS_GROUP);
        const int16_t *a = t->from[2 * i] + channel, *b = t->from[2 * i + 1] + channel;
        const ptrdiff_t next_a = t->next[2 * i], next_b = t->next[2 * i + 1];
        LB_UNROLL_ALL
        for (int k = 0; k < pixels; k++, a += next_a, b += next_b) {
            const lb_vec u = whole ? lb_vec_loadu(a) : lb_vec_some(a, count), v = whole ? lb_vec_loadu(b) : lb_vec_some(b, count);
            sum[2 * k] = lb_vec_dot(sum[2 * k], lb_vec_low(u, v), w0);
            sum[2 * k + 1] = lb_vec_dot(sum[2 * k + 1], lb_vec_high(u, v), w1);
        }
    }
}

LB_INLINE lb_reals lb_taps_reals(const lb_taps_weights *w, lb_vec sum, ptrdiff_t lane) {
    return w->narrow == 1 ? lb_vec_reals(sum) : lb_dot2_plus(sum, w->real_start + lane);
}

/* Results of some pixels, by 32 bits. */
LB_INLINE void lb_taps_narrow(const int pixels, const lb_dwconv_s16_params *p, const lb_taps_weights *w, const lb_taps_from *t, void *out,
                              ptrdiff_t at, const lb_dot2_target *target) {
    for (ptrdiff_t c = 0; c < p->out_c; c += LB_TAPS_GROUP) {
        const ptrdiff_t count = p->out_c - c;
        lb_vec sum[2 * LB_DOT2_PIXELS];
        LB_UNROLL_ALL
        for (int k = 0; k < 2 * pixels; k++)
            sum[k] = lb_vec_load(w->start + c + k % 2 * LB_DOT2_LANES);
        if (count >= LB_TAPS_GROUP)
            lb_taps_sums(pixels, t, c, 1, LB_TAPS_GROUP, w->weights + 2 * c, w->step, sum);
        else
            lb_taps_sums(pixels, t, c, 0, count, w->weights + 2 * c, w->step, sum);
        const lb_reals m0 = lb_reals_load(w->m + c), m1 = lb_reals_load(w->m + c + LB_DOT2_LANES);
        LB_UNROLL_ALL
        for (int k = 0; k < pixels; k++)
            lb_dot2_put_taps(out, at + k * (ptrdiff_t)p->out_stride + c, lb_reals_mul(lb_taps_reals(w, sum[2 * k], c), m0),
                             lb_reals_mul(lb_taps_reals(w, sum[2 * k + 1], c + LB_DOT2_LANES), m1),
                             count < LB_TAPS_GROUP ? count : LB_TAPS_GROUP, target);
    }
}

/* The result of one pixel, by doubles. */
static void lb_taps_wide(const lb_dwconv_s16_params *p, const lb_taps_weights *w, const lb_place *place, void *out, ptrdiff_t at,
                         const lb_dot2_target *target) {
    const int32_t taps = p->kernel_h * p->kernel_w;
    lb_taps_from t = {.pairs = 0};
    for (ptrdiff_t c = 0; c < p->out_c; c += LB_TAPS_GROUP) {
        const ptrdiff_t count = p->out_c - c < LB_TAPS_GROUP ? p->out_c - c : LB_TAPS_GROUP;
        _Alignas(64) double total[LB_TAPS_GROUP];
        memcpy(total, w->real_start + c, sizeof total);
        for (int32_t first = 0; first < taps; first += LB_TAPS_MOST) {
            if (c == 0 || taps > LB_TAPS_MOST)
                lb_taps_find(p, place, first, w->zeros, &t);
            for (int32_t half = 0; half < w->planes; half++) {
                lb_vec sum[2] = {lb_vec_zero(), lb_vec_zero()};
                lb_taps_sums(1, &t, c, 0, count, w->weights + half * w->plane + first / 2 * w->step + 2 * c, w->step, sum);
                for (int j = 0; j < 2; j++)
                    lb_dot2_add(total + j * LB_DOT2_LANES, sum[j], half ? 256.0 : 1.0);
            }
        }
        lb_dot2_put_taps(out, at + c, lb_reals_mul(lb_dot2_sums(total), lb_reals_load(w->m + c)),
                         lb_reals_mul(lb_dot2_sums(total + LB_DOT2_LANES), lb_reals_load(w->m + c + LB_DOT2_LANES)), count, target);
    }
}

/* The channel of a lane. */
static inline int32_t lb_taps_channel(int32_t lane) {
    const int32_t in_group = lane % LB_TAPS_GROUP, in_vector = in_group % LB_DOT2_LANES;
    return lane - in_group + in_vector / 4 * 8 + in_group / LB_DOT2_LANES * 4 + in_vector % 4;
}

/* Sums, multipliers and zeros are made in scratch: 18 bytes for each channel. */
static lb_taps_weights lb_taps_prepare(const lb_dwconv_s16_params *p, const void *packed, const int64_t *bias, const float *multiplier,
                                       void *scratch) {
    const int32_t wide = (p->out_c + LB_TAPS_GROUP - 1) / LB_TAPS_GROUP * LB_TAPS_GROUP, taps = p->kernel_h * p->kernel_w;
    const int32_t *head = packed;
    const int64_t *sums = (const int64_t *)(const void *)((const char *)packed + 64);
    const int32_t narrow = taps <= LB_TAPS_MOST ? head[1] : 0;
    double *const real_start = scratch;
    int32_t *const start = (int32_t *)(void *)(real_start + wide);
    float *const m = (float *)(void *)(start + wide);
    int16_t *const zeros = (int16_t *)(void *)(m + wide);
    for (int32_t i = 0; i < wide; i++) {
        const int32_t c = lb_taps_channel(i);
        const int64_t zeroed = c < p->out_c ? -p->x_zero * sums[c] : 0, first = c < p->out_c ? bias[c] : 0;
        start[i] = narrow ? (int32_t)(zeroed + (narrow == 1 ? first : 0)) : 0;
        real_start[i] = (double)(first + (narrow ? 0 : zeroed));
        m[i] = c < p->out_c ? multiplier[c] : 0.0f;
        zeros[i] = (int16_t)p->x_zero;
    }
    return (lb_taps_weights){(const int16_t *)(const void *)(sums + wide),
                             2 * (ptrdiff_t)wide,
                             (taps + 1) / 2 * 2 * (ptrdiff_t)wide,
                             head[0],
                             narrow,
                             start,
                             real_start,
                             m,
                             zeros};
}

static void lb_dot2_dwconv(const lb_dwconv_s16_params *p, const int16_t *x, const void *packed, const int64_t *bias,
                           const float *multiplier, void *out, void *scratch, int32_t begin, int32_t end) {
    const lb_taps_weights w = lb_taps_prepare(p, packed, bias, multiplier, scratch);
    const lb_dot2_target target = lb_dot2_target_of(p->out_bytes, p->y_zero, p->lo, p->hi);
    /* Columns inner ... outer - 1 have all taps of a row of their window inside. */
    const int32_t inner = (p->pad_w + p->stride_w - 1) / p->stride_w, reach = p->in_w + p->pad_w - (p->kernel_w - 1) * p->dilation_w;
    const int32_t outer = reach > 0 ? (reach + p->stride_w - 1) / p->stride_w : 0;
    const int32_t last = lb_conv_s16_first(p, end);
    for (int32_t pixel = lb_conv_s16_first(p, begin), pixels; pixel < last; pixel += pixels) {
        const int32_t column = pixel % p->out_w, right = outer < p->out_w ? outer : p->out_w;
        const lb_place place = lb_place_of(p, x, pixel);
        const ptrdiff_t at = (ptrdiff_t)pixel * p->out_stride;
        pixels = 1;
        if (!w.narrow) {
            lb_taps_wide(p, &w, &place, out, at, &target);
            continue;
        }
        lb_taps_from t;
        lb_taps_find(p, &place, 0, w.zeros, &t);
        if (column >= inner && column + LB_DOT2_PIXELS <= right && pixel + LB_DOT2_PIXELS <= last) {
            lb_taps_narrow(LB_DOT2_PIXELS, p, &w, &t, out, at, &target);
            pixels = LB_DOT2_PIXELS;
        } else
            lb_taps_narrow(1, p, &w, &t, out, at, &target);
    }
}

#endif
