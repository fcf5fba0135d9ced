/* 32 activations, rounded (blocks.h). */
#ifndef LB_BLOCK_RECORD_H
#define LB_BLOCK_RECORD_H

#include "base/numerics.h"

#include <stdint.h>

enum { LB_BLOCK = 32, LB_BLOCK_RECORD = 48 };

typedef struct {
    int8_t q[LB_BLOCK];
    float scale;
    float scaled_sum;
    int16_t half[2]; /* sums of q[0 ... 15] and q[16 ... 31] */
    int32_t sum;
} lb_block_record;

LB_STATIC_ASSERT(sizeof(lb_block_record) == LB_BLOCK_RECORD, "a record is 48 bytes");

/* Scale and factor of a block whose largest magnitude has these bits; a factor of 0 gives a block of zeros. */
static inline float lb_block_scale(uint32_t largest, float *factor) {
    *factor = 0.0f;
    if (largest >= 0x7f800000u)
        return lb_f32_of_bits(0x7fc00000u);
    if (largest < 0x0d800000u) /* 2^-100 */
        return 0.0f;
    const float a = lb_f32_of_bits(largest);
    *factor = 127.0f / a;
    return a / 127.0f;
}

#endif
