/* Eight floats at a time: the words of float kernels that are written once for vectors of any width (f32_avx512.h has the same). */
#ifndef LB_F32_AVX2_H
#define LB_F32_AVX2_H

#include "base/math_f32_avx2.h"

#define LB_SIMD(contract) lb_##contract##__avx2
#define LB_V(name) lb_##name##_ps /* a function of a vector */

typedef __m256 lb_v;

#define LB_LANES 8
#define LB_TILE_ROWS 6  /* of two vectors: 12 sums, the vectors of b and an element of a take 15 of 16 registers */
#define LB_TALL_ROWS 12 /* of one vector */

#define lb_v_load(from) _mm256_loadu_ps(from)
#define lb_v_store(to, v) _mm256_storeu_ps(to, v)
#define lb_v_all(x) _mm256_set1_ps(x)
#define lb_v_zero() _mm256_setzero_ps()
#define lb_v_add(a, b) _mm256_add_ps(a, b)
#define lb_v_sub(a, b) _mm256_sub_ps(a, b)
#define lb_v_mul(a, b) _mm256_mul_ps(a, b)
#define lb_v_div(a, b) _mm256_div_ps(a, b)
#define lb_v_sqrt(v) _mm256_sqrt_ps(v)
#define lb_v_neg(v) _mm256_xor_ps(v, _mm256_set1_ps(-0.0f))
#define lb_v_fma(a, b, c) _mm256_fmadd_ps(a, b, c)

/* The first n of 1 ... LB_LANES. */
static inline void lb_v_put(float *to, lb_v v, int32_t n) {
    if (n >= 8) {
        _mm256_storeu_ps(to, v);
        return;
    }
    __m128 part = _mm256_castps256_ps128(v);
    if (n & 4) {
        _mm_storeu_ps(to, part);
        part = _mm256_extractf128_ps(v, 1), to += 4;
    }
    if (n & 2) {
        _mm_storel_pi((__m64 *)(void *)to, part);
        part = _mm_movehl_ps(part, part), to += 2;
    }
    if (n & 1)
        _mm_store_ss(to, part);
}

/* As many, and `other` after them. */
static inline lb_v lb_v_get(const float *from, int32_t n, float other) {
    if (n >= 8)
        return _mm256_loadu_ps(from);
    float some[8] = {other, other, other, other, other, other, other, other};
    memcpy(some, from, sizeof *from * (size_t)n);
    return _mm256_loadu_ps(some);
}

#define lb_v_first(v) _mm256_cvtss_f32(v)

/* The largest of all, NaN if one is NaN. */
static inline float lb_v_most(lb_v v) {
    v = lb_max_ps(v, _mm256_permute2f128_ps(v, v, 1));
    v = lb_max_ps(v, _mm256_permute_ps(v, 0x4E));
    return _mm256_cvtss_f32(lb_max_ps(v, _mm256_permute_ps(v, 0xB1)));
}

#define lb_v_sum(v) lb_sum_ps(v)

#endif
