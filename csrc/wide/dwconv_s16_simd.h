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

/* Taps of the windows of neighbours: where the first channel of each pixel's is, and how far from the first pixel's that of the next is,
 * where all are inside. */
typedef struct {
    const int16_t *from[LB_TAPS_MOST][LB_DOT2_PIXELS];
    ptrdiff_t next[LB_TAPS_MOST];
    int32_t pairs;
} lb_taps_from;

/* How many pairs of taps there are: two rows of a window stand side by side, or two columns where it has one row. */
static inline int32_t lb_taps_pairs(const lb_dwconv_s16_params *p) {
    return p->kernel_h > 1 ? (p->kernel_h + 1) / 2 * p->kernel_w : (p->kernel_w + 1) / 2;
}

/* Tap (i, j) of windows of `pixels` neighbours, of which the first begins at a place; what is outside the image is zeros. A tap that does
 * not exist has weights of 0. */
static inline void lb_taps_put(const lb_dwconv_s16_params *p, const lb_place *at, int32_t i, int32_t j, int32_t pixels,
                               const int16_t *zeros, lb_taps_from *t, int32_t k) {
    const int32_t row = at->top + i * p->dilation_h;
    const int inside = i < p->kernel_h && j < p->kernel_w && row >= 0 && row < p->in_h;
    for (int32_t n = 0, column = at->left + j * p->dilation_w; n < pixels; n++, column += p->stride_w)
        t->from[k][n] = inside && column >= 0 && column < p->in_w ? at->image + ((ptrdiff_t)row * p->in_w + column) * p->in_c : zeros;
    t->next[k] = inside ? (ptrdiff_t)p->stride_w * p->in_c : 0;
}

/* All taps from pair `first` on, as many as there is room for. */
static void lb_taps_find(const lb_dwconv_s16_params *p, const lb_place *at, int32_t first, int32_t pixels, const int16_t *zeros,
                         lb_taps_from *t) {
    const int32_t all = lb_taps_pairs(p), pairs = all - first < LB_TAPS_MOST / 2 ? all - first : LB_TAPS_MOST / 2;
    for (int32_t k = 0; k < pairs; k++) {
        const int high = p->kernel_h > 1;
        const int32_t i = high ? (first + k) / p->kernel_w * 2 : 0, j = high ? (first + k) % p->kernel_w : (first + k) * 2;
        lb_taps_put(p, at, i, j, pixels, zeros, t, 2 * k);
        lb_taps_put(p, at, i + high, j + !high, pixels, zeros, t, 2 * k + 1);
    }
    t->pairs = pairs;
}

/* sum (two vectors for each pixel) += the products of all pairs of taps with LB_TAPS_GROUP channels from `channel` on, of which `count`
 * are there; of the pixels `ahead` ..., or of those whose taps are looked up one by one (`apart`). */
LB_INLINE void lb_taps_sums(const int pixels, const int apart, const lb_taps_from *t, ptrdiff_t ahead, ptrdiff_t channel, const int whole,
                            ptrdiff_t count, const int16_t *w, ptrdiff_t step, lb_vec *sum) {
    for (int32_t i = 0; i < t->pairs; i++, w += step) {
        const lb_vec w0 = lb_vec_load(w), w1 = lb_vec_load(w + LB_TAPS_GROUP);
        const ptrdiff_t next_a = t->next[2 * i], next_b = t->next[2 * i + 1];
        const int16_t *a = t->from[2 * i][0] + channel + ahead * next_a, *b = t->from[2 * i + 1][0] + channel + ahead * next_b;
        LB_UNROLL_ALL
        for (int k = 0; k < pixels; k++, a += next_a, b += next_b) {
            if (apart)
                a = t->from[2 * i][k] + channel, b = t->from[2 * i + 1][k] + channel;
            lb_vec u = whole ? lb_vec_loadu(a) : lb_vec_some(a, count), v = whole ? lb_vec_loadu(b) : lb_vec_some(b, count);
            lb_vec_keep(u);
            lb_vec_keep(v);
            sum[2 * k] = lb_vec_dot(sum[2 * k], lb_vec_low(u, v), w0);
            sum[2 * k + 1] = lb_vec_dot(sum[2 * k + 1], lb_vec_high(u, v), w1);
        }
    }
}

LB_INLINE lb_reals lb_taps_reals(const lb_taps_weights *w, lb_vec sum, ptrdiff_t lane) {
    return w->narrow == 1 ? lb_vec_reals(sum) : lb_dot2_plus(sum, w->real_start + lane);
}

/* Results of `blocks` times so many pixels, by 32 bits. */
LB_INLINE void lb_taps_narrow(const int pixels, const int apart, const lb_dwconv_s16_params *p, const lb_taps_weights *w,
                              const lb_taps_from *t, int32_t blocks, void *out, ptrdiff_t at, const lb_dot2_target target) {
    for (ptrdiff_t c = 0; c < p->out_c; c += LB_TAPS_GROUP) {
        const ptrdiff_t count = p->out_c - c;
        const lb_reals m0 = lb_reals_load(w->m + c), m1 = lb_reals_load(w->m + c + LB_DOT2_LANES);
        for (int32_t block = 0; block < blocks; block++) {
            const ptrdiff_t ahead = (ptrdiff_t)block * pixels;
            lb_vec sum[2 * LB_DOT2_PIXELS];
            LB_UNROLL_ALL
            for (int k = 0; k < 2 * pixels; k++)
                sum[k] = lb_vec_load(w->start + c + k % 2 * LB_DOT2_LANES);
            if (count >= LB_TAPS_GROUP)
                lb_taps_sums(pixels, apart, t, ahead, c, 1, LB_TAPS_GROUP, w->weights + 2 * c, w->step, sum);
            else
                lb_taps_sums(pixels, apart, t, ahead, c, 0, count, w->weights + 2 * c, w->step, sum);
            LB_UNROLL_ALL
            for (int k = 0; k < pixels; k++)
                lb_dot2_put_taps(out, at + (ahead + k) * p->out_stride + c, lb_reals_mul(lb_taps_reals(w, sum[2 * k], c), m0),
                                 lb_reals_mul(lb_taps_reals(w, sum[2 * k + 1], c + LB_DOT2_LANES), m1),
                                 count < LB_TAPS_GROUP ? count : LB_TAPS_GROUP, &target);
        }
    }
}

#if LB_DOT2_LANES == 16 /* with fewer registers nothing is won */

/* The same inside the image for windows of `kernel` columns without dilation and with two rows or more: what two rows have in a column is
 * read once, and meets each column of taps. Of channels from c on, LB_TAPS_GROUP that become words (`plain`), or `count` of any kind. */
LB_INLINE void lb_taps_slide(const int kernel, const int stride, const int plain, const lb_dwconv_s16_params *p, const lb_taps_weights *w,
                             const lb_taps_from *t, int32_t blocks, void *out, ptrdiff_t at, const lb_dot2_target target, ptrdiff_t c,
                             ptrdiff_t count) {
    enum { PIXELS = LB_DOT2_PIXELS };
    const ptrdiff_t channels = p->in_c, step = w->step;
    const lb_reals m[2] = {lb_reals_load(w->m + c), lb_reals_load(w->m + c + LB_DOT2_LANES)};
    const lb_vec start[2] = {lb_vec_load(w->start + c), lb_vec_load(w->start + c + LB_DOT2_LANES)};
    for (ptrdiff_t ahead = 0; ahead < (ptrdiff_t)blocks * PIXELS; ahead += PIXELS) {
        lb_vec sum[2 * PIXELS];
        LB_UNROLL_ALL
        for (int k = 0; k < 2 * PIXELS; k++)
            sum[k] = start[k % 2];
        const int16_t *weights = w->weights + 2 * c;
        for (int32_t pair = 0; pair < t->pairs; pair += kernel, weights += kernel * step) {
            const int16_t *a = t->from[2 * pair][0] + c + ahead * t->next[2 * pair];
            const int16_t *b = t->from[2 * pair + 1][0] + c + ahead * t->next[2 * pair + 1];
            const ptrdiff_t step_a = t->next[2 * pair] ? channels : 0, step_b = t->next[2 * pair + 1] ? channels : 0;
            lb_vec taps[5][2];
            LB_UNROLL_ALL
            for (int j = 0; j < kernel; j++) {
                taps[j][0] = lb_vec_load(weights + j * step), taps[j][1] = lb_vec_load(weights + j * step + LB_TAPS_GROUP);
                lb_vec_keep(taps[j][0]);
                lb_vec_keep(taps[j][1]);
            }
            LB_UNROLL_ALL
            for (int column = 0; column < (PIXELS - 1) * stride + kernel; column++, a += step_a, b += step_b) {
                __asm__("" : "+r"(a), "+r"(b)); /* else the compiler makes a pointer for each column, which have no registers */
                const lb_vec u = plain ? lb_vec_loadu(a) : lb_vec_some(a, count), v = plain ? lb_vec_loadu(b) : lb_vec_some(b, count);
                lb_vec low = lb_vec_low(u, v), high = lb_vec_high(u, v);
                lb_vec_keep(low);
                lb_vec_keep(high);
                LB_UNROLL_ALL
                for (int j = 0; j < kernel; j++)
                    if (column >= j && (column - j) % stride == 0 && (column - j) / stride < PIXELS) {
                        const int k = (column - j) / stride;
                        sum[2 * k] = lb_vec_dot(sum[2 * k], low, taps[j][0]);
                        sum[2 * k + 1] = lb_vec_dot(sum[2 * k + 1], high, taps[j][1]);
                    }
            }
        }
        LB_UNROLL_ALL
        for (int k = 0; k < PIXELS; k++) {
            const ptrdiff_t to = at + (ahead + k) * p->out_stride + c;
            if (plain)
                lb_dot2_put_pairs((int16_t *)out + to, sum + 2 * k, m, &target);
            else
                lb_dot2_put_taps(out, to, lb_reals_mul(lb_taps_reals(w, sum[2 * k], c), m[0]),
                                 lb_reals_mul(lb_taps_reals(w, sum[2 * k + 1], c + LB_DOT2_LANES), m[1]), count, &target);
        }
    }
}

#define LB_TAPS_SLIDE(kernel, stride)                                                                                                      \
    static __attribute__((noinline)) void lb_taps_slide_##kernel##_##stride(const lb_dwconv_s16_params *p, const lb_taps_weights *w,       \
                                                                            const lb_taps_from *t, int32_t blocks, void *out,              \
                                                                            ptrdiff_t at, const lb_dot2_target *target) {                  \
        ptrdiff_t c = 0;                                                                                                                   \
        for (; w->narrow == 1 && target->bytes == 2 && c <= p->out_c - LB_TAPS_GROUP; c += LB_TAPS_GROUP)                                  \
            lb_taps_slide(kernel, stride, 1, p, w, t, blocks, out, at, *target, c, LB_TAPS_GROUP);                                         \
        for (; c < p->out_c; c += LB_TAPS_GROUP)                                                                                           \
            lb_taps_slide(kernel, stride, 0, p, w, t, blocks, out, at, *target, c,                                                         \
                          p->out_c - c < LB_TAPS_GROUP ? p->out_c - c : LB_TAPS_GROUP);                                                    \
    }
LB_TAPS_SLIDE(3, 1)
LB_TAPS_SLIDE(3, 2)
LB_TAPS_SLIDE(5, 1)
LB_TAPS_SLIDE(5, 2)

#endif

/* Each a function, so that it has the registers for itself: pixels inside, at an edge, and single ones. */
#define LB_TAPS_FUNCTION(name, pixels, apart)                                                                                              \
    static __attribute__((noinline)) void name(const lb_dwconv_s16_params *p, const lb_taps_weights *w, const lb_taps_from *t,             \
                                               int32_t blocks, void *out, ptrdiff_t at, const lb_dot2_target *target) {                    \
        lb_taps_narrow(pixels, apart, p, w, t, blocks, out, at, *target);                                                                  \
    }
LB_TAPS_FUNCTION(lb_taps_inside_image, LB_DOT2_PIXELS, 0)
LB_TAPS_FUNCTION(lb_taps_at_edge, LB_DOT2_PIXELS, 1)
LB_TAPS_FUNCTION(lb_taps_single, 1, 1)

/* The result of one pixel, by doubles. */
static void lb_taps_wide(const lb_dwconv_s16_params *p, const lb_taps_weights *w, const lb_place *place, void *out, ptrdiff_t at,
                         const lb_dot2_target *target) {
    const int32_t pairs = lb_taps_pairs(p);
    lb_taps_from t = {.pairs = 0};
    for (ptrdiff_t c = 0; c < p->out_c; c += LB_TAPS_GROUP) {
        const ptrdiff_t count = p->out_c - c < LB_TAPS_GROUP ? p->out_c - c : LB_TAPS_GROUP;
        _Alignas(64) double total[LB_TAPS_GROUP];
        memcpy(total, w->real_start + c, sizeof total);
        for (int32_t first = 0; first < pairs; first += LB_TAPS_MOST / 2) {
            if (c == 0 || pairs > LB_TAPS_MOST / 2)
                lb_taps_find(p, place, first, 1, w->zeros, &t);
            for (int32_t half = 0; half < w->planes; half++) {
                lb_vec sum[2] = {lb_vec_zero(), lb_vec_zero()};
                lb_taps_sums(1, 1, &t, 0, c, 0, count, w->weights + half * w->plane + first * w->step + 2 * c, w->step, sum);
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
    const int32_t wide = (p->out_c + LB_TAPS_GROUP - 1) / LB_TAPS_GROUP * LB_TAPS_GROUP, pairs = lb_taps_pairs(p);
    const int32_t *head = packed;
    const int64_t *sums = (const int64_t *)(const void *)((const char *)packed + 64);
    const int32_t narrow = pairs <= LB_TAPS_MOST / 2 ? head[1] : 0;
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
                             pairs * 2 * (ptrdiff_t)wide,
                             head[0],
                             narrow,
                             start,
                             real_start,
                             m,
                             zeros};
}

typedef void lb_taps_fn(const lb_dwconv_s16_params *p, const lb_taps_weights *w, const lb_taps_from *t, int32_t blocks, void *out,
                        ptrdiff_t at, const lb_dot2_target *target);

/* The fastest way for pixels inside the image. */
static lb_taps_fn *lb_taps_way(const lb_dwconv_s16_params *p) {
#if LB_DOT2_LANES == 16
    if (p->kernel_h > 1 && p->dilation_w == 1 && p->stride_w <= 2 && p->kernel_w == 3)
        return p->stride_w == 1 ? lb_taps_slide_3_1 : lb_taps_slide_3_2;
    if (p->kernel_h > 1 && p->dilation_w == 1 && p->stride_w <= 2 && p->kernel_w == 5)
        return p->stride_w == 1 ? lb_taps_slide_5_1 : lb_taps_slide_5_2;
#endif
    (void)p;
    return lb_taps_inside_image;
}

static void lb_dot2_dwconv(const lb_dwconv_s16_params *p, const int16_t *x, const void *packed, const int64_t *bias,
                           const float *multiplier, void *out, void *scratch, int32_t begin, int32_t end) {
    const lb_taps_weights w = lb_taps_prepare(p, packed, bias, multiplier, scratch);
    const lb_dot2_target target = lb_dot2_target_of(p->out_bytes, p->y_zero, p->lo, p->hi);
    /* Columns inner ... outer - 1 have all taps of a row of their window inside. */
    const int32_t inner = (p->pad_w + p->stride_w - 1) / p->stride_w, reach = p->in_w + p->pad_w - (p->kernel_w - 1) * p->dilation_w;
    const int32_t full = reach > 0 ? (reach + p->stride_w - 1) / p->stride_w : 0, outer = full < p->out_w ? full : p->out_w;
    const int32_t start = lb_conv_s16_first(p, begin), last = lb_conv_s16_first(p, end);
    lb_taps_fn *const inside_image = lb_taps_way(p);
    lb_taps_from t;
    for (int32_t pixel = start, pixels; pixel < last; pixel += pixels) {
        int32_t column = pixel % p->out_w, row_end = last - pixel < p->out_w - column ? last - pixel : p->out_w - column;
        const int32_t back = LB_DOT2_PIXELS - row_end; /* the last pixels of a row: some before them are computed again */
        if (w.narrow && back > 0 && column >= back && pixel - back >= start)
            pixel -= back, column -= back, row_end += back;
        const int32_t inside = column >= inner ? (column + row_end < outer ? column + row_end : outer) - column : 0;
        const lb_place place = lb_place_of(p, x, pixel);
        const ptrdiff_t at = (ptrdiff_t)pixel * p->out_stride;
        if (!w.narrow) {
            lb_taps_wide(p, &w, &place, out, at, &target);
            pixels = 1;
        } else if (inside >= LB_DOT2_PIXELS) {
            lb_taps_find(p, &place, 0, 1, w.zeros, &t);
            inside_image(p, &w, &t, inside / LB_DOT2_PIXELS, out, at, &target);
            pixels = inside / LB_DOT2_PIXELS * LB_DOT2_PIXELS;
        } else if (row_end >= LB_DOT2_PIXELS) {
            lb_taps_find(p, &place, 0, LB_DOT2_PIXELS, w.zeros, &t);
            lb_taps_at_edge(p, &w, &t, 1, out, at, &target);
            pixels = LB_DOT2_PIXELS;
        } else {
            lb_taps_find(p, &place, 0, 1, w.zeros, &t);
            lb_taps_single(p, &w, &t, 1, out, at, &target);
            pixels = 1;
        }
    }
}

#endif
