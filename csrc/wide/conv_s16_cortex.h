/* conv_s16 on Cortex-M by pixels, whose windows become rows. Weights stand as for `ref`.
 *
 * Who includes it has lb_row_s16, which orders a row as its products want it, and the sums acc + x * w of k elements: of one column of
 * bytes or of words, and of four columns of bytes, k apart, modulo 2^32. */
#ifndef LB_CONV_S16_CORTEX_H
#define LB_CONV_S16_CORTEX_H

#include "wide/conv_s16.h"
#include "base/requantize_cortex.h"

static void lb_row_s16(const lb_conv_s16_params *p, int16_t *x, int32_t k);
static int64_t lb_bytes_s16(int64_t acc, const int16_t *x, const int8_t *w, int32_t k);
static int64_t lb_words_s16(int64_t acc, const int16_t *x, const int16_t *w, int32_t k);
static void lb_four_narrow_s16(int64_t *acc, const int16_t *x, const int8_t *w, int32_t k);

/* bias - zero * sum of w: where a column's accumulator starts. */
static inline int64_t lb_conv_s16_start(const lb_conv_s16_params *p, int64_t bias, const void *w, ptrdiff_t at, int32_t k) {
    int64_t sum = 0;
    for (int32_t i = 0; i < k; i++)
        sum += p->weight_bytes == 1 ? ((const int8_t *)w)[at + i] : ((const int16_t *)w)[at + i];
    return bias - p->x_zero * sum;
}

/* acc[i] plus the products of `count` (1 or 4) columns, of which the first begins at element `at` of the weights. */
static inline void lb_dots_s16(const lb_conv_s16_params *p, int64_t *acc, int32_t count, const int16_t *x, const void *w, ptrdiff_t at,
                               int32_t k) {
    if (p->weight_bytes == 1 && p->sum_bytes == 4 && count == 4) {
        lb_four_narrow_s16(acc, x, (const int8_t *)w + at, k);
        return;
    }
    for (int32_t i = 0; i < count; i++, at += k)
        acc[i] =
            p->weight_bytes == 1 ? lb_bytes_s16(acc[i], x, (const int8_t *)w + at, k) : lb_words_s16(acc[i], x, (const int16_t *)w + at, k);
}

LB_INLINE void lb_conv_s16_cortex(const lb_conv_s16_params *p, const int16_t *x, const void *w, const int64_t *bias,
                                  const lb_f32 *multiplier, void *out, void *scratch, int32_t begin, int32_t end) {
    const int32_t n = p->out_c / p->groups, k = p->kernel_h * p->kernel_w * (p->in_c / p->groups), last = lb_conv_s16_first(p, end);
    int64_t *const own = scratch;
    const int64_t *const start = p->x_zero ? own : bias; /* the zero point of 16-bit activations is 0 as a rule */
    int16_t *const row = p->x_zero ? (int16_t *)(own + p->out_c) : scratch;
    for (int32_t o = 0; p->x_zero && o < p->out_c; o++)
        own[o] = lb_conv_s16_start(p, bias[o], w, (ptrdiff_t)o * k, k);
    for (int32_t pixel = lb_conv_s16_first(p, begin); pixel < last; pixel++)
        for (int32_t g = 0; g < p->groups; g++) {
            lb_gather_s16(p, x, pixel, g, row);
            lb_row_s16(p, row, k);
            for (int32_t j = g * n, many; j < (g + 1) * n; j += many) {
                many = (g + 1) * n - j >= 4 ? 4 : 1;
                int64_t acc[4];
                for (int32_t i = 0; i < many; i++)
                    acc[i] = start[j + i];
                lb_dots_s16(p, acc, many, row, w, (ptrdiff_t)j * k, k);
                for (int32_t i = 0; i < many; i++)
                    lb_conv_s16_put(p, acc[i], multiplier[j + i], out, (ptrdiff_t)pixel * p->out_stride + j + i);
            }
        }
}

#endif
