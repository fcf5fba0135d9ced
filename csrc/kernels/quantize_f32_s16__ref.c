#include "lb.h"
#include "lb_numerics.h"

lb_quantize_f32_s16_fn lb_quantize_f32_s16__ref;

void lb_quantize_f32_s16__ref(const lb_quantize_f32_s16_params *p, const float *x, int16_t *out, int32_t begin, int32_t end) {
    for (int32_t i = begin; i < end; i++)
        out[i] = (int16_t)lb_quantize(x[i], p->scale, p->zero_point, p->lo, p->hi);
}
