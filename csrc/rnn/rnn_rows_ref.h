/* What lstm_rows_s8 and gru_rows_s8 share: a row of floats as int8 by its own scale, and one sum. */
#ifndef LB_RNN_ROWS_REF_H
#define LB_RNN_ROWS_REF_H

#include "base/exp.h"
#include "rnn/rnn_shared.h"

/* The row's scale; its integers are in `out`. */
static inline float lb_quantize_row(const float *x, int32_t n, int8_t *out) {
    float largest = 0.0f;
    for (int32_t i = 0; i < n; i++) {
        const float a = lb_magnitude(x[i]);
        largest = a > largest ? a : largest; /* NaN is passed over */
    }
    float scale = largest / 127.0f;
    scale = scale > 0.0f && scale <= FLT_MAX ? scale : 1.0f;
    for (int32_t i = 0; i < n; i++)
        out[i] = (int8_t)lb_quantize(x[i], scale, 0, -127, 127);
    return scale;
}

/* fl32(sum of h * r) * scale. */
static inline float lb_rows_product(const int8_t *h, const int8_t *r, int32_t k, float scale) {
    int32_t sum = 0;
    for (int32_t i = 0; i < k; i++)
        sum += h[i] * r[i];
    return (float)sum * scale;
}

#endif
