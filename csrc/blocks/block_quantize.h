/* A block of activations, rounded, in plain C. */
#ifndef LB_BLOCK_QUANTIZE_H
#define LB_BLOCK_QUANTIZE_H

#include "blocks/block_record.h"

/* x is not finite, or 0 throughout, or scaled: all by the factor. */
static inline void lb_quantize_block(const float *x, lb_block_record *out) {
    uint32_t largest = 0;
    for (int i = 0; i < LB_BLOCK; i++) {
        const uint32_t bits = lb_f32_bits(x[i]) & 0x7fffffffu;
        largest = bits > largest ? bits : largest;
    }
    float factor;
    out->scale = lb_block_scale(largest, &factor);
    out->half[0] = out->half[1] = 0;
    for (int i = 0; i < LB_BLOCK; i++) {
        out->q[i] = (int8_t)(factor > 0.0f ? lb_rne(x[i] * factor) : 0);
        out->half[i / 16] = (int16_t)(out->half[i / 16] + out->q[i]);
    }
    out->sum = out->half[0] + out->half[1];
    out->scaled_sum = out->scale * (float)out->sum;
}

#endif
