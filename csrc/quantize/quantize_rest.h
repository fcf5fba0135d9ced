/* Elements that fill no vector: i ... end - 1, one by one. */
#ifndef LB_QUANTIZE_REST_H
#define LB_QUANTIZE_REST_H

#include "lb.h"
#include "base/numerics.h"

static inline void lb_quantize_rest(const lb_quantize_f32_s8_params *p, const float *x, int8_t *out, int32_t i, int32_t end) {
    for (; i < end; i++)
        out[i] = (int8_t)lb_quantize(x[i], p->scale, p->zero_point, p->lo, p->hi);
}

static inline void lb_dequantize_rest(const lb_dequantize_s8_f32_params *p, const int8_t *x, float *out, int32_t i, int32_t end) {
    for (; i < end; i++)
        out[i] = lb_dequantize(x[i], p->scale, p->zero_point);
}

#endif
