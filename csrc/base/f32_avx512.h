/* Sixteen floats at a time: the words of float kernels that are written once for vectors of any width (f32_avx2.h has the same). */
#ifndef LB_F32_AVX512_H
#define LB_F32_AVX512_H

#include "base/avx512.h"
#include "base/scalar_f32.h"

#define LB_SIMD(contract) lb_##contract##__avx512
#define LB_V(name) lb_##name##_ps512 /* a function of a vector */

typedef __m512 lb_v;

#define LB_LANES 16
#define LB_TILE_ROWS 14 /* of two vectors: 28 sums, the vectors of b and an element of a take 31 of 32 registers */
#define LB_TALL_ROWS 14 /* of one vector */

#define lb_v_load(from) _mm512_loadu_ps(from)
#define lb_v_store(to, v) _mm512_storeu_ps(to, v)
#define lb_v_all(x) _mm512_set1_ps(x)
#define lb_v_zero() _mm512_setzero_ps()
#define lb_v_add(a, b) _mm512_add_ps(a, b)
#define lb_v_sub(a, b) _mm512_sub_ps(a, b)
#define lb_v_mul(a, b) _mm512_mul_ps(a, b)
#define lb_v_div(a, b) _mm512_div_ps(a, b)
#define lb_v_sqrt(v) _mm512_sqrt_ps(v)
#define lb_v_neg(v) _mm512_xor_ps(v, _mm512_set1_ps(-0.0f))
#define lb_v_fma(a, b, c) _mm512_fmadd_ps(a, b, c)

/* The first n of 1 ... LB_LANES. */
static inline void lb_v_put(float *to, lb_v v, int32_t n) {
    _mm512_mask_storeu_ps(to, lb_first16(n), v);
}

static inline lb_v lb_v_get(const float *from, int32_t n, float other) {
    const __mmask16 there = lb_first16(n);
    return _mm512_mask_blend_ps(there, _mm512_set1_ps(other), _mm512_maskz_loadu_ps(there, from));
}

/* NaN stays: the second operand is given back where the comparison is unordered. */
static inline lb_v lb_clamp_ps512(lb_v v, lb_v lo, lb_v hi) {
    return _mm512_min_ps(hi, _mm512_max_ps(lo, v));
}

/* The larger one, NaN if one is NaN. */
static inline lb_v lb_max_ps512(lb_v a, lb_v b) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), _mm512_max_ps(a, b), a);
}

static inline lb_v lb_min_ps512(lb_v a, lb_v b) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), _mm512_min_ps(a, b), a);
}

static inline lb_v lb_abs_ps512(lb_v v) {
    return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), v);
}

static inline float lb_v_first(lb_v v) {
    return _mm_cvtss_f32(_mm512_castps512_ps128(v));
}

/* The largest of all, NaN if one is NaN. */
static inline float lb_v_most(lb_v v) {
    static const int32_t other[4][16] = {{8, 9, 10, 11, 12, 13, 14, 15}, {4, 5, 6, 7}, {2, 3}, {1}};
    for (int i = 0; i < 4; i++)
        v = lb_max_ps512(v, _mm512_permutexvar_ps(_mm512_loadu_si512(other[i]), v));
    return lb_v_first(v);
}

/* The sum of all, in one order. */
static inline float lb_v_sum(lb_v v) {
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(v), _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1)));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

static inline void lb_split_ps512(lb_v v, lb_v *e, lb_v *m) {
    const __m512i root = _mm512_set1_epi32(0x3F3504F3); /* sqrt(1/2) */
    const __m512i above = _mm512_sub_epi32(_mm512_castps_si512(v), root);
    *e = _mm512_cvtepi32_ps(_mm512_srai_epi32(above, 23));
    *m = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_and_si512(above, _mm512_set1_epi32(0x7FFFFF)), root));
}

#define V lb_v
#define FN(name) lb_##name##_ps512
#define K(c) _mm512_set1_ps(c)
#define ADD(a, b) _mm512_add_ps(a, b)
#define SUB(a, b) _mm512_sub_ps(a, b)
#define MUL(a, b) _mm512_mul_ps(a, b)
#define DIV(a, b) _mm512_div_ps(a, b)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define LESS(a, b) _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ)
#define LESS_EQUAL(a, b) _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ)
#define EQUAL(a, b) _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ)
#define PICK(mask, a, b) _mm512_mask_blend_ps(mask, b, a)
#define CLAMP(v, lo, hi) lb_clamp_ps512(v, lo, hi)
#define ABS(v) lb_abs_ps512(v)
#define SIGNED(v, s) _mm512_or_ps(lb_abs_ps512(v), _mm512_and_ps(s, _mm512_set1_ps(-0.0f)))
#define ROUND(v) _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define POW2(n) _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23))
#define SPLIT(v, e, m) lb_split_ps512(v, e, m)

#include "base/math_f32_body.h"

#endif
