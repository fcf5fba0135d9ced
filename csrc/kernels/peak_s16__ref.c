#include "lb.h"

lb_peak_s16_fn lb_peak_s16__ref;

/* Read anew for each product: otherwise the compiler would make it once. */
void lb_peak_s16__ref(const lb_peak_s16_params *p, const int16_t *x, const int16_t *w, int32_t *out) {
    const volatile int16_t *a = x, *b = w;
    for (int32_t i = 0; i < 96; i++) {
        uint32_t sum = 0;
        for (int32_t r = 0; r < p->rounds; r++)
            for (int32_t j = 2 * (i % 8); j < 2 * (i % 8) + 2; j++)
                sum += (uint32_t)(a[j] * b[j]);
        out[i] = (int32_t)sum;
    }
}
