/* layer_norm_f32 on vectors of any width: the words of f32_avx2.h or another stand before this. */
#ifndef LB_LAYER_NORM_F32_SIMD_H
#define LB_LAYER_NORM_F32_SIMD_H

#include "lb.h"
#include "base/math_f32.h"
#include "base/rows_f32.h"

void LB_SIMD(layer_norm_f32)(const lb_layer_norm_f32_params *p, const float *x, const float *scale, const float *bias, float *out,
                             int32_t begin, int32_t end) {
    for (int32_t r = begin; r < end; r++) {
        const float *row = x + (ptrdiff_t)r * p->n;
        float *to = out + (ptrdiff_t)r * p->n;
        const float mean = p->centered ? lb_row_sum(row, 0.0f, 0, p->n) / (float)p->n : 0.0f;
        const float inverse = 1.0f / lb_sqrtf(lb_row_sum(row, mean, 1, p->n) / (float)p->n + p->eps);
        const lb_v m = lb_v_all(mean), f = lb_v_all(inverse);
        int32_t i = 0;
        for (; i <= p->n - LB_LANES; i += LB_LANES) {
            const lb_v v = lb_v_mul(lb_v_sub(lb_v_load(row + i), m), f);
            lb_v_store(to + i, lb_v_fma(v, lb_v_load(scale + i), lb_v_load(bias + i)));
        }
        for (; i < p->n; i++)
            to[i] = (row[i] - mean) * inverse * scale[i] + bias[i];
    }
}

#endif
