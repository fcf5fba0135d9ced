/* A quad of a row in every lane of 32 bits. */
#ifndef LB_DOT4_QUAD_NEON_H
#define LB_DOT4_QUAD_NEON_H

#include "base/unroll.h"

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

LB_INLINE int8x16_t lb_quad_at(const int8_t *a) {
    int32_t quad;
    memcpy(&quad, a, sizeof quad);
    return vreinterpretq_s8_s32(vdupq_n_s32(quad));
}

#endif
