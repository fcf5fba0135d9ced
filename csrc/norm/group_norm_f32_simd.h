/* group_norm_f32 on vectors of any width: the words of f32_avx2.h or another stand before this. */
#ifndef LB_GROUP_NORM_F32_SIMD_H
#define LB_GROUP_NORM_F32_SIMD_H

#include "lb.h"
#include "base/math_f32.h"
#include "base/rows_f32.h"

void LB_SIMD(group_norm_f32)(const lb_group_norm_f32_params *p, const float *x, const float *scale, const float *bias, float *out,
                             int32_t begin, int32_t end) {
    const int32_t n = p->channels * p->spatial;
    for (int32_t r = begin; r < end; r++) {
        const float *row = x + (ptrdiff_t)r * n;
        const float mean = lb_row_sum(row, 0.0f, 0, n) / (float)n;
        const float inverse = 1.0f / lb_sqrtf(lb_row_sum(row, mean, 1, n) / (float)n + p->eps);
        for (int32_t c = 0; c < p->channels; c++) {
            const int32_t channel = r % p->groups * p->channels + c;
            const float *from = row + (ptrdiff_t)c * p->spatial;
            const float factor = inverse * scale[channel];
            float *to = out + (ptrdiff_t)r * n + (ptrdiff_t)c * p->spatial;
            const lb_v m = lb_v_all(mean), f = lb_v_all(factor), b = lb_v_all(bias[channel]);
            int32_t i = 0;
            for (; i <= p->spatial - LB_LANES; i += LB_LANES)
                lb_v_store(to + i, lb_v_fma(lb_v_sub(lb_v_load(from + i), m), f, b));
            for (; i < p->spatial; i++)
                to[i] = (from[i] - mean) * factor + bias[channel];
        }
    }
}

#endif
