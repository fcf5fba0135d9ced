#include "lb.h"
#include "lb_numerics.h"

lb_quantize_f32_s8_fn lb_quantize_f32_s8__ref; /* the compiler checks the definition against the contract */

void lb_quantize_f32_s8__ref(const lb_quantize_f32_s8_params *p, const float *x, int8_t *out) {
    for (int32_t i = 0; i < p->n; i++)
        out[i] = (int8_t)lb_quantize(x[i], p->scale, p->zero_point, p->lo, p->hi);
}
