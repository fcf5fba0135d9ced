/* exp.h, sixteen at a time. */
#ifndef LB_EXP_AVX512_H
#define LB_EXP_AVX512_H

#include "base/avx512.h"

#define EXP_V __m512
#define EXP_INTS __m512i
#define EXP_MASK __mmask16
#define EXP_FN(name) lb_##name##_of_16
#define EXP_OP(name) _mm512_##name
#define EXP_LESS(a, b) _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ)
#define EXP_AT_LEAST(a, b) _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ)
#define EXP_WHERE(mask, v) _mm512_maskz_mov_ps(mask, v)
#define EXP_PICK(mask, a, b) _mm512_mask_mov_ps(b, mask, a)
#define EXP_FLIP(mask, v) _mm512_mask_mov_ps(v, mask, _mm512_xor_ps(v, _mm512_set1_ps(-0.0f)))
#define EXP_BITS(v) _mm512_castps_si512(v)
#define EXP_OF_BITS(v) _mm512_castsi512_ps(v)

#include "base/exp_body.h"

#endif
