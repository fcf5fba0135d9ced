/* linear_s16 on Cortex-M, by columns whose weights pass once for all rows of a block. Weights stand as for `ref`.
 *
 * Who includes it has lb_dot_1x2_s16: acc[0] and acc[1] plus the sums of x * w for two columns of int16, k apart, or the same one. */
#ifndef LB_LINEAR_S16_CORTEX_H
#define LB_LINEAR_S16_CORTEX_H

#include "linear/linear_blocks.h"
#include "base/requantize_cortex.h"

static void lb_dot_1x2_s16(int64_t acc[2], const int16_t *x, const int16_t *w, const int16_t *other, int32_t k);

LB_INLINE void lb_put_s64(void *row, int32_t j, int64_t acc, const lb_scaling *s, lb_kind kind) {
    const lb_f32 v = lb_f32_mul(lb_f32_from_s64(acc), s->multiplier[j]);
    if (kind == LB_TO_F32)
        ((lb_f32 *)row)[j] = v;
    else if (kind == LB_TO_S16)
        ((int16_t *)row)[j] = (int16_t)lb_round_clamp(v, s->zero, s->lo, s->hi);
    else
        ((int8_t *)row)[j] = (int8_t)lb_round_clamp(v, s->zero, s->lo, s->hi);
}

/* bias - zero * sum of w: where a column's accumulator starts. */
LB_INLINE int64_t lb_start_s16(int64_t bias, const int16_t *w, int32_t k, int32_t zero) {
    if (zero == 0)
        return bias;
    int64_t sum = 0;
    for (int32_t i = 0; i < k; i++)
        sum += w[i];
    return bias - zero * sum;
}

LB_INLINE void lb_linear_s16_cortex(const lb_linear_s8_params *p, const int16_t *x, const void *w, const int64_t *bias,
                                    const lb_f32 *multiplier, void *out, lb_kind kind, int32_t begin, int32_t end) {
    const lb_scaling scaling = {multiplier, p->y_zero, p->lo, p->hi};
    for (int32_t item = begin; item < end; item++) {
        const lb_block b = lb_linear_block(p, item);
        for (int32_t j = b.left; j < b.right; j += 2) {
            const int two = j + 1 < b.right;
            const int16_t *const column = (const int16_t *)w + (ptrdiff_t)j * p->k, *const other = two ? column + p->k : column;
            const int64_t start[2] = {lb_start_s16(bias[j], column, p->k, p->x_zero), lb_start_s16(bias[j + two], other, p->k, p->x_zero)};
            for (int32_t i = b.top; i < b.bottom; i++) {
                int64_t acc[2] = {start[0], start[1]};
                lb_dot_1x2_s16(acc, x + (ptrdiff_t)i * p->k, column, other, p->k);
                void *row = lb_element(out, (ptrdiff_t)i * p->out_stride, kind);
                lb_put_s64(row, j, acc[0], &scaling, kind);
                if (two)
                    lb_put_s64(row, j + 1, acc[1], &scaling, kind);
            }
        }
    }
}

#endif
