/* Recurrent products by VMLADAVA: sixteen an instruction, and as many weights added up for the zero point. */
#ifndef LB_RNN_MVE_H
#define LB_RNN_MVE_H

#define LB_OWN_SUMS

#include "lb_dot_mve.h"

typedef int8_t lb_hidden, lb_weight;
typedef int32_t lb_sum;

static inline int32_t lb_recurrent(const int8_t *h, const int8_t *r, int32_t k, int32_t h_zero) {
    int32_t products = 0, weights = 0;
    for (int32_t left = k >> 4; left > 0; left--, h += 16, r += 16) {
        const int8x16_t w = vldrbq_s8(r);
        products = vmladavaq_s8(products, vldrbq_s8(h), w), weights = vaddvaq_s8(weights, w);
    }
    if (k & 15) {
        const mve_pred16_t rest = vctp8q((uint32_t)(k & 15));
        const int8x16_t w = vldrbq_z_s8(r, rest);
        products = vmladavaq_s8(products, vldrbq_z_s8(h, rest), w), weights = vaddvaq_s8(weights, w);
    }
    return (int32_t)((uint32_t)products - (uint32_t)h_zero * (uint32_t)weights);
}

static inline void lb_four_gates(int32_t sums[4], const int8_t *h, const int8_t *r, ptrdiff_t step, int32_t k, int32_t h_zero) {
    for (int gate = 0; gate < 4; gate++)
        sums[gate] = lb_recurrent(h, r + gate * step, k, h_zero);
}

#endif
