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

lb_peak_f32_fn lb_peak_f32__ref;

/* Read anew for each product: otherwise the compiler would make it once. */
void lb_peak_f32__ref(const lb_peak_f32_params *p, const float *x, const float *w, float *out) {
    const volatile float *a = x, *b = w;
    for (int32_t i = 0; i < 96; i++) {
        float sum = 0.0f;
        for (int32_t r = 0; r < p->rounds; r++)
            sum += a[i % 8] * b[i % 8];
        out[i] = sum;
    }
}

lb_peak_s8_fn lb_peak_s8__ref;

void lb_peak_s8__ref(const lb_peak_s8_params *p, const uint8_t *x, const int8_t *w, int32_t *out) {
    for (int32_t i = 0; i < 192; i++)
        out[i] = 0;
    for (int32_t r = 0; r < p->rounds; r++)
        for (int32_t i = 0; i < 768; i++)
            out[i / 4] = (int32_t)((uint32_t)out[i / 4] + (uint32_t)(x[i % 64] * w[i % 64]));
}
