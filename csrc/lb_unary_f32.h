/* The frame of a function of one float: of `v`, and of alpha and beta where it has them. */
#ifndef LB_UNARY_F32_H
#define LB_UNARY_F32_H

#include "lb.h"
#include "lb_math.h"

#define LB_UNARY_F32(contract, of)                                                                                                         \
    void lb_##contract##__ref(const lb_##contract##_params *p, const float *x, float *out, int32_t begin, int32_t end) {                   \
        const float alpha = p->alpha, beta = p->beta;                                                                                      \
        (void)alpha, (void)beta;                                                                                                           \
        for (int32_t i = begin; i < end; i++) {                                                                                            \
            const float v = x[i];                                                                                                          \
            out[i] = of;                                                                                                                   \
        }                                                                                                                                  \
    }

#endif
