/* conv_s16 on Cortex-M by pixels, whose windows become rows. Weights stand as for `ref`.
 *
 * Who includes it has lb_row_s16, which orders a row as its products want it, and lb_dots_s16: acc[i] plus the sum of x * w for `count`
 * (1 or 4) columns, k apart, of which the first begins at element `at` of the weights. */
#ifndef LB_CONV_S16_CORTEX_H
#define LB_CONV_S16_CORTEX_H

#include "lb_conv_s16.h"
#include "lb_put_cortex.h"

static void lb_row_s16(const lb_conv_s16_params *p, int16_t *x, int32_t k);
static void lb_dots_s16(const lb_conv_s16_params *p, int64_t *acc, int32_t count, const int16_t *x, const void *w, ptrdiff_t at, int32_t k);

/* bias - zero * sum of w: where a column's accumulator starts. 16-bit activations have the zero point 0 as a rule. */
static inline int64_t lb_conv_s16_start(const lb_conv_s16_params *p, int64_t bias, const void *w, ptrdiff_t at, int32_t k) {
    if (p->x_zero == 0)
        return bias;
    int64_t sum = 0;
    for (int32_t i = 0; i < k; i++)
        sum += p->weight_bytes == 1 ? ((const int8_t *)w)[at + i] : ((const int16_t *)w)[at + i];
    return bias - p->x_zero * sum;
}

LB_INLINE void lb_conv_s16_cortex(const lb_conv_s16_params *p, const int16_t *x, const void *w, const int64_t *bias,
                                  const float *multiplier, void *out, void *scratch, int32_t begin, int32_t end) {
    const int32_t n = p->out_c / p->groups, k = p->kernel_h * p->kernel_w * (p->in_c / p->groups), last = lb_conv_s16_first(p, end);
    int16_t *const row = scratch;
    for (int32_t pixel = lb_conv_s16_first(p, begin); pixel < last; pixel++)
        for (int32_t g = 0; g < p->groups; g++) {
            lb_gather_s16(p, x, pixel, g, row);
            lb_row_s16(p, row, k);
            for (int32_t j = g * n, many; j < (g + 1) * n; j += many) {
                many = (g + 1) * n - j >= 4 ? 4 : 1;
                int64_t acc[4];
                for (int32_t i = 0; i < many; i++)
                    acc[i] = lb_conv_s16_start(p, bias[j + i], w, (ptrdiff_t)(j + i) * k, k);
                lb_dots_s16(p, acc, many, row, w, (ptrdiff_t)j * k, k);
                for (int32_t i = 0; i < many; i++)
                    lb_conv_s16_put(p, acc[i], multiplier[j + i], out, (ptrdiff_t)pixel * p->out_stride + j + i);
            }
        }
}

#endif
