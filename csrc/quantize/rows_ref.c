#include "lb.h"
#include "quantize/row_scale.h"
#include "base/numerics.h"

#include <stddef.h>

lb_quantize_rows_f32_s8_fn lb_quantize_rows_f32_s8__ref;

void lb_quantize_rows_f32_s8__ref(const lb_quantize_rows_f32_s8_params *p, const lb_f32 *x, int8_t *out, lb_f32 *scales, int32_t begin,
                                  int32_t end) {
    for (int32_t row = begin; row < end; row++) {
        const lb_f32 *from = x + (ptrdiff_t)row * p->size;
        lb_f32 largest = lb_f32_of_bits(0);
        for (int32_t i = 0; i < p->size; i++) {
            const lb_f32 a = lb_f32_abs(from[i]);
            largest = lb_f32_less(largest, a) ? a : largest;
        }
        scales[row] = lb_row_scale(largest);
        for (int32_t i = 0; i < p->size; i++)
            out[(ptrdiff_t)row * p->size + i] = (int8_t)lb_quantize(from[i], scales[row], 0, -127, 127);
    }
}

lb_scale_rows_f32_fn lb_scale_rows_f32__ref;

void lb_scale_rows_f32__ref(const lb_scale_rows_f32_params *p, const lb_f32 *acc, const lb_f32 *x_scales, const lb_f32 *scales,
                            const lb_f32 *bias, lb_f32 *out, int32_t begin, int32_t end) {
    for (int32_t row = begin; row < end; row++)
        for (int32_t j = 0; j < p->n; j++) {
            const ptrdiff_t at = (ptrdiff_t)row * p->n + j;
            const lb_f32 product = lb_f32_mul(acc[at], lb_f32_mul(x_scales[row], scales[j]));
            out[at] = lb_f32_add(lb_f32_add(lb_f32_of_bits(0), product), bias[j]);
        }
}
