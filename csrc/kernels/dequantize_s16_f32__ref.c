#include "lb.h"
#include "lb_numerics.h"

lb_dequantize_s16_f32_fn lb_dequantize_s16_f32__ref;

void lb_dequantize_s16_f32__ref(const lb_dequantize_s16_f32_params *p, const int16_t *x, float *out, int32_t begin, int32_t end) {
    for (int32_t i = begin; i < end; i++)
        out[i] = lb_dequantize(x[i], p->scale, p->zero_point);
}
