#include "lb.h"
#include "lb_numerics.h"

lb_requantize_s16_s8_fn lb_requantize_s16_s8__ref;

void lb_requantize_s16_s8__ref(const lb_requantize_s16_s8_params *p, const int16_t *x, int8_t *out, int32_t begin, int32_t end) {
    for (int32_t i = begin; i < end; i++)
        out[i] = (int8_t)lb_requantize(x[i] - p->x_zero, p->multiplier, p->y_zero, p->lo, p->hi);
}
