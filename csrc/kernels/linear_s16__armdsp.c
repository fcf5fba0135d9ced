#include "lb_linear_s16_armdsp.h"

lb_linear_s16_fn lb_linear_s16__armdsp;

void lb_linear_s16__armdsp(const lb_linear_s16_params *p, const int16_t *x, const void *w, const int64_t *bias, const float *multiplier,
                           int16_t *out, int32_t begin, int32_t end) {
    lb_linear_s16_cortex(p, x, w, bias, multiplier, out, LB_TO_S16, begin, end);
}
