/* linear_s16 by VMLALDAVA: eight products of 16 bits into 64. */
#ifndef LB_LINEAR_S16_MVE_H
#define LB_LINEAR_S16_MVE_H

#ifndef __ARM_FEATURE_MVE
#error "mve kernels need vectors: -mcpu=cortex-m55"
#endif

#include "wide/linear_s16_cortex.h"

#include <arm_mve.h>

static void lb_dot_1x2_s16(int64_t acc[2], const int16_t *x, const int16_t *w, const int16_t *other, int32_t k) {
    int64_t s0 = acc[0], s1 = acc[1];
    for (int32_t left = k >> 3; left > 0; left--, x += 8, w += 8, other += 8) {
        const int16x8_t v = vldrhq_s16(x);
        s0 = vmlaldavaq_s16(s0, v, vldrhq_s16(w)), s1 = vmlaldavaq_s16(s1, v, vldrhq_s16(other));
    }
    if (k & 7) {
        const mve_pred16_t rest = vctp16q((uint32_t)(k & 7));
        const int16x8_t v = vldrhq_z_s16(x, rest);
        s0 = vmlaldavaq_s16(s0, v, vldrhq_z_s16(w, rest)), s1 = vmlaldavaq_s16(s1, v, vldrhq_z_s16(other, rest));
    }
    acc[0] = s0, acc[1] = s1;
}

#endif
