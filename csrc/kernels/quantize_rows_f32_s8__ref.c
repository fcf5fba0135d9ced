#include "lb_rows.h"

lb_quantize_rows_f32_s8_fn lb_quantize_rows_f32_s8__ref;

void lb_quantize_rows_f32_s8__ref(const lb_quantize_rows_f32_s8_params *p, const float *x, int8_t *out, float *scales, int32_t begin,
                                  int32_t end) {
    for (int32_t row = begin; row < end; row++) {
        const float *from = x + (ptrdiff_t)row * p->size;
        float largest = lb_f32_of_bits(0);
        for (int32_t i = 0; i < p->size; i++) {
            const float a = lb_f32_abs(from[i]);
            largest = lb_f32_less(largest, a) ? a : largest;
        }
        scales[row] = lb_row_scale(largest);
        for (int32_t i = 0; i < p->size; i++)
            out[(ptrdiff_t)row * p->size + i] = (int8_t)lb_quantize(from[i], scales[row], 0, -127, 127);
    }
}
