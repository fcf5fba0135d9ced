#include "lb.h"
#include "lb_numerics.h"

lb_dequantize_s8_f32_fn lb_dequantize_s8_f32__ref;

void lb_dequantize_s8_f32__ref(const lb_dequantize_s8_f32_params *p, const int8_t *x, float *out) {
    for (int32_t i = 0; i < p->n; i++)
        out[i] = lb_dequantize(x[i], p->scale, p->zero_point);
}
