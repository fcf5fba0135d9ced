/* Recurrent products of lb_lstm_ref.h and lb_gru_ref.h, element by element. An instruction set that has its own defines LB_OWN_SUMS. */
#ifndef LB_RNN_SUMS_H
#define LB_RNN_SUMS_H

#ifndef LB_OWN_SUMS

#include <stddef.h>
#include <stdint.h>

/* The sum of (h - h_zero) * r over k units. */
static inline lb_sum lb_recurrent(const lb_hidden *h, const lb_weight *r, int32_t k, int32_t h_zero) {
    lb_sum sum = 0;
    for (int32_t i = 0; i < k; i++)
        sum += (lb_sum)(h[i] - h_zero) * r[i];
    return sum;
}

/* The same for four gates, whose weights are `step` apart. */
static inline void lb_four_gates(lb_sum sums[4], const lb_hidden *h, const lb_weight *r, ptrdiff_t step, int32_t k, int32_t h_zero) {
    for (int gate = 0; gate < 4; gate++)
        sums[gate] = lb_recurrent(h, r + gate * step, k, h_zero);
}

#endif

#endif
