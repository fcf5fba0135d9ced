/* Recurrent products by SMLAD. */
#ifndef LB_RNN_ARMDSP_H
#define LB_RNN_ARMDSP_H

#define LB_OWN_SUMS

#include "base/dot_armdsp.h"

typedef int8_t lb_hidden, lb_weight;
typedef int32_t lb_sum;

static inline int32_t lb_recurrent(const int8_t *h, const int8_t *r, int32_t k, int32_t h_zero) {
    return lb_dot_1x1(0, h, r, k, h_zero);
}

static inline void lb_four_gates(int32_t sums[4], const int8_t *h, const int8_t *r, ptrdiff_t step, int32_t k, int32_t h_zero) {
    memset(sums, 0, 4 * sizeof *sums);
    lb_dot_1x4(sums, h, r, step, k, h_zero);
}

#endif
