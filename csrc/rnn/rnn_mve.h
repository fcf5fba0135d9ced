/* Recurrent products by VMLADAVA: sixteen an instruction, and as many weights added up for the zero point. */
#ifndef LB_RNN_MVE_H
#define LB_RNN_MVE_H

#define LB_OWN_SUMS

#include "base/dot_mve.h"

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

/* Products and weights of one gate, sixteen more. */
#define LB_GATE_MVE(at, wv) (products[at] = vmladavaq_s8(products[at], v, wv), weights[at] = vaddvaq_s8(weights[at], wv))

static inline void lb_four_gates(int32_t sums[4], const int8_t *h, const int8_t *r, ptrdiff_t step, int32_t k, int32_t h_zero) {
    int32_t products[4] = {0}, weights[4] = {0};
    const int8_t *r2 = r + 2 * step;
    for (int32_t left = k >> 4; left > 0; left--, h += 16, r += 16, r2 += 16) {
        const int8x16_t v = vldrbq_s8(h), w0 = vldrbq_s8(r), w1 = vldrbq_s8(r + step), w2 = vldrbq_s8(r2), w3 = vldrbq_s8(r2 + step);
        LB_GATE_MVE(0, w0), LB_GATE_MVE(1, w1), LB_GATE_MVE(2, w2), LB_GATE_MVE(3, w3);
    }
    if (k & 15) {
        const mve_pred16_t rest = vctp8q((uint32_t)(k & 15));
        const int8x16_t v = vldrbq_z_s8(h, rest), w0 = vldrbq_z_s8(r, rest), w1 = vldrbq_z_s8(r + step, rest);
        const int8x16_t w2 = vldrbq_z_s8(r2, rest), w3 = vldrbq_z_s8(r2 + step, rest);
        LB_GATE_MVE(0, w0), LB_GATE_MVE(1, w1), LB_GATE_MVE(2, w2), LB_GATE_MVE(3, w3);
    }
    for (int gate = 0; gate < 4; gate++)
        sums[gate] = (int32_t)((uint32_t)products[gate] - (uint32_t)h_zero * (uint32_t)weights[gate]);
}

#endif
