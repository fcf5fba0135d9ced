#include "lb.h"
#include "base/math_f32.h"

#include <stddef.h>

lb_layer_norm_f32_fn lb_layer_norm_f32__ref;

void lb_layer_norm_f32__ref(const lb_layer_norm_f32_params *p, const float *x, const float *scale, const float *bias, float *out,
                            int32_t begin, int32_t end) {
    for (int32_t r = begin; r < end; r++) {
        const float *row = x + (ptrdiff_t)r * p->n;
        float mean = 0.0f, squares = 0.0f;
        for (int32_t i = 0; p->centered && i < p->n; i++)
            mean += row[i];
        mean /= (float)p->n;
        for (int32_t i = 0; i < p->n; i++)
            squares += (row[i] - mean) * (row[i] - mean);
        const float root = lb_sqrtf(squares / (float)p->n + p->eps);
        for (int32_t i = 0; i < p->n; i++)
            out[(ptrdiff_t)r * p->n + i] = (row[i] - mean) / root * scale[i] + bias[i];
    }
}

lb_group_norm_f32_fn lb_group_norm_f32__ref;

void lb_group_norm_f32__ref(const lb_group_norm_f32_params *p, const float *x, const float *scale, const float *bias, float *out,
                            int32_t begin, int32_t end) {
    const int32_t n = p->channels * p->spatial;
    for (int32_t r = begin; r < end; r++) {
        const float *row = x + (ptrdiff_t)r * n;
        float mean = 0.0f, squares = 0.0f;
        for (int32_t i = 0; i < n; i++)
            mean += row[i];
        mean /= (float)n;
        for (int32_t i = 0; i < n; i++)
            squares += (row[i] - mean) * (row[i] - mean);
        const float root = lb_sqrtf(squares / (float)n + p->eps);
        for (int32_t i = 0; i < n; i++) {
            const int32_t channel = r % p->groups * p->channels + i / p->spatial;
            out[(ptrdiff_t)r * n + i] = (row[i] - mean) / root * scale[channel] + bias[channel];
        }
    }
}
