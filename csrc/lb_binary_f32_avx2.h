/* The frame of an operation on two floats: the file that includes it says what `of(a, b)` is of 8 of them, and names the contract. */
#ifndef LB_BINARY_F32_AVX2_H
#define LB_BINARY_F32_AVX2_H

#include "lb.h"
#include "lb_math_avx2.h"
#include "lb_walk.h"

/* 8 neighbours, or one of them 8 times. */
static inline __m256 lb_operand(const float *from, int32_t stride) {
    return stride ? _mm256_loadu_ps(from) : _mm256_broadcast_ss(from);
}

#define LB_BINARY_F32(contract)                                                                                                            \
    void lb_##contract##__avx2(const lb_##contract##_params *p, const float *a, const float *b, float *out, int32_t begin, int32_t end) {  \
        const __m256 lo = _mm256_set1_ps(p->lo), hi = _mm256_set1_ps(p->hi);                                                               \
        const int32_t da = p->a_stride[3], db = p->b_stride[3];                                                                            \
        for (lb_run r; begin < end; begin += r.count) {                                                                                    \
            r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);                                                                 \
            const float *left = a + r.a, *right = b + r.b;                                                                                 \
            int32_t i = 0;                                                                                                                 \
            for (; i <= r.count - 8; i += 8)                                                                                               \
                _mm256_storeu_ps(out + r.at + i, lb_clamp_ps(of(lb_operand(left + i * da, da), lb_operand(right + i * db, db)), lo, hi));  \
            for (; i < r.count; i++)                                                                                                       \
                lb_store_first(out + r.at + i,                                                                                             \
                               lb_clamp_ps(of(_mm256_broadcast_ss(left + i * da), _mm256_broadcast_ss(right + i * db)), lo, hi));          \
        }                                                                                                                                  \
    }

#endif
