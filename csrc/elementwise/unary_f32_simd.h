/* Functions of a vector of floats: `of` is an expression of v, and of alpha and beta where it has them. The words of vectors
 * (f32_avx2.h or another) stand before this. */
#ifndef LB_UNARY_F32_SIMD_H
#define LB_UNARY_F32_SIMD_H

#include "lb.h"

#define LB_UNARY_F32(contract, of)                                                                                                         \
    static inline lb_v contract##_of(lb_v v, lb_v alpha, lb_v beta) {                                                                      \
        (void)alpha, (void)beta;                                                                                                           \
        return of;                                                                                                                         \
    }                                                                                                                                      \
    void LB_SIMD(contract)(const lb_##contract##_params *p, const float *x, float *out, int32_t begin, int32_t end) {                      \
        const lb_v alpha = lb_v_all(p->alpha), beta = lb_v_all(p->beta);                                                                   \
        int32_t i = begin;                                                                                                                 \
        for (; i <= end - LB_LANES; i += LB_LANES)                                                                                         \
            lb_v_store(out + i, contract##_of(lb_v_load(x + i), alpha, beta));                                                             \
        if (i < end)                                                                                                                       \
            lb_v_put(out + i, contract##_of(lb_v_get(x + i, end - i, 0.0f), alpha, beta), end - i);                                        \
    }

#endif
