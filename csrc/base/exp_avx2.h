/* exp.h, eight at a time. */
#ifndef LB_EXP_AVX2_H
#define LB_EXP_AVX2_H

#include <immintrin.h>

#define EXP_V __m256
#define EXP_INTS __m256i
#define EXP_MASK __m256
#define EXP_FN(name) lb_##name##8
#define EXP_OP(name) _mm256_##name
#define EXP_LESS(a, b) _mm256_cmp_ps(a, b, _CMP_LT_OQ)
#define EXP_AT_LEAST(a, b) _mm256_cmp_ps(a, b, _CMP_GE_OQ)
#define EXP_WHERE(mask, v) _mm256_and_ps(v, mask)
#define EXP_PICK(mask, a, b) _mm256_blendv_ps(b, a, mask)
#define EXP_FLIP(mask, v) _mm256_xor_ps(v, _mm256_and_ps(mask, _mm256_set1_ps(-0.0f)))
#define EXP_BITS(v) _mm256_castps_si256(v)
#define EXP_OF_BITS(v) _mm256_castsi256_ps(v)

#include "base/exp_body.h"

#endif
