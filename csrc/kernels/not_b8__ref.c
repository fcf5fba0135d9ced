#include "lb.h"

lb_not_b8_fn lb_not_b8__ref;

void lb_not_b8__ref(const lb_not_b8_params *p, const uint8_t *x, uint8_t *out, int32_t begin, int32_t end) {
    (void)p;
    for (int32_t i = begin; i < end; i++)
        out[i] = (uint8_t)(1 - x[i]);
}
