#include "lb.h"
#include "lb_numerics.h"

lb_requantize_s16_fn lb_requantize_s16__ref;

void lb_requantize_s16__ref(const lb_requantize_s16_params *p, const int16_t *x, int16_t *out, int32_t begin, int32_t end) {
    for (int32_t i = begin; i < end; i++)
        out[i] = (int16_t)lb_requantize(x[i] - p->x_zero, p->multiplier, p->y_zero, p->lo, p->hi);
}
