#include "lb.h"

lb_peak_s8_fn lb_peak_s8__ref;

void lb_peak_s8__ref(const lb_peak_s8_params *p, const uint8_t *x, const int8_t *w, int32_t *out) {
    for (int32_t i = 0; i < 192; i++)
        out[i] = 0;
    for (int32_t r = 0; r < p->rounds; r++)
        for (int32_t i = 0; i < 768; i++)
            out[i / 4] = (int32_t)((uint32_t)out[i / 4] + (uint32_t)(x[i % 64] * w[i % 64]));
}
