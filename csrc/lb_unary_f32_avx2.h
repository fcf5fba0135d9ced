/* The frame of a function of eight floats: of `v`, and of alpha and beta where it has them. */
#ifndef LB_UNARY_F32_AVX2_H
#define LB_UNARY_F32_AVX2_H

#include "lb.h"
#include "lb_math_avx2.h"

#define LB_UNARY_F32(contract, of)                                                                                                         \
    static inline __m256 eight(__m256 v, __m256 alpha, __m256 beta) {                                                                      \
        (void)alpha, (void)beta;                                                                                                           \
        return of;                                                                                                                         \
    }                                                                                                                                      \
    void lb_##contract##__avx2(const lb_##contract##_params *p, const float *x, float *out, int32_t begin, int32_t end) {                  \
        const __m256 alpha = _mm256_set1_ps(p->alpha), beta = _mm256_set1_ps(p->beta);                                                     \
        int32_t i = begin;                                                                                                                 \
        for (; i <= end - 8; i += 8)                                                                                                       \
            _mm256_storeu_ps(out + i, eight(_mm256_loadu_ps(x + i), alpha, beta));                                                         \
        if (i < end) {                                                                                                                     \
            float last[8] = {0};                                                                                                           \
            memcpy(last, x + i, sizeof *x * (size_t)(end - i));                                                                            \
            _mm256_storeu_ps(last, eight(_mm256_loadu_ps(last), alpha, beta));                                                             \
            memcpy(out + i, last, sizeof *x * (size_t)(end - i));                                                                          \
        }                                                                                                                                  \
    }

#endif
