#include "lb.h"
#include "lb_numerics.h"

#include <stddef.h>

lb_scale_rows_f32_fn lb_scale_rows_f32__ref;

void lb_scale_rows_f32__ref(const lb_scale_rows_f32_params *p, const float *acc, const float *x_scales, const float *scales,
                            const float *bias, float *out, int32_t begin, int32_t end) {
    for (int32_t row = begin; row < end; row++)
        for (int32_t j = 0; j < p->n; j++) {
            const ptrdiff_t at = (ptrdiff_t)row * p->n + j;
            const float product = lb_f32_mul(acc[at], lb_f32_mul(x_scales[row], scales[j]));
            out[at] = lb_f32_add(lb_f32_add(lb_f32_of_bits(0), product), bias[j]);
        }
}
