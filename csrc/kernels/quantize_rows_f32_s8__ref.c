#include "lb_rows.h"

lb_quantize_rows_f32_s8_fn lb_quantize_rows_f32_s8__ref;

void lb_quantize_rows_f32_s8__ref(const lb_quantize_rows_f32_s8_params *p, const float *x, int8_t *out, float *scales, int32_t begin,
                                  int32_t end) {
    for (int32_t row = begin; row < end; row++) {
        const float *from = x + (ptrdiff_t)row * p->size;
        float largest = 0.0f;
        for (int32_t i = 0; i < p->size; i++) {
            const float a = from[i] < 0 ? -from[i] : from[i];
            largest = a > largest ? a : largest;
        }
        scales[row] = lb_row_scale(largest);
        for (int32_t i = 0; i < p->size; i++)
            out[(ptrdiff_t)row * p->size + i] = (int8_t)lb_quantize(from[i], scales[row], 0, -127, 127);
    }
}
