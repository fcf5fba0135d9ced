#include "lb.h"
#include "lb_numerics.h"

lb_quantize_f32_s8_fn lb_quantize_f32_s8__ref; /* the compiler checks the definition against the contract */

void lb_quantize_f32_s8__ref(const lb_quantize_f32_s8_params *p, const float *x, int8_t *out, int32_t begin, int32_t end) {
    for (int32_t i = begin; i < end; i++)
        out[i] = (int8_t)lb_quantize(x[i], p->scale, p->zero_point, p->lo, p->hi);
}
