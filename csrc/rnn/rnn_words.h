/* Vectors of units: the words that recurrent layers are written in, over the intrinsics of a width, LB_RNN_OP(name). The words that differ
 * by more than a prefix are in rnn_avx2.h and rnn_avx512vnni.h. */
#ifndef LB_RNN_WORDS_H
#define LB_RNN_WORDS_H

#define lb_reals_all(v) LB_RNN_OP(set1_ps)(v)
#define lb_reals_add(a, b) LB_RNN_OP(add_ps)(a, b)
#define lb_reals_sub(a, b) LB_RNN_OP(sub_ps)(a, b)
#define lb_reals_mul(a, b) LB_RNN_OP(mul_ps)(a, b)
#define lb_reals_div(a, b) LB_RNN_OP(div_ps)(a, b)
#define lb_reals_max(a, b) LB_RNN_OP(max_ps)(a, b) /* b where one is NaN */
#define lb_reals_load(from) LB_RNN_OP(load_ps)(from)
#define lb_reals_store(to, v) LB_RNN_OP(store_ps)(to, v)
#define lb_reals_of(ints) LB_RNN_OP(cvtepi32_ps)(ints)
#define lb_ints_all(v) LB_RNN_OP(set1_epi32)(v)
#define lb_ints_add(a, b) LB_RNN_OP(add_epi32)(a, b)
#define lb_ints_sub(a, b) LB_RNN_OP(sub_epi32)(a, b)
#define lb_ints_mul(a, b) LB_RNN_OP(mullo_epi32)(a, b)
#define lb_ints_min(a, b) LB_RNN_OP(min_epi32)(a, b)
#define lb_ints_max(a, b) LB_RNN_OP(max_epi32)(a, b)
#define lb_ints_shift(v, bits) LB_RNN_OP(srai_epi32)(v, bits)
#define lb_ints_shift_by(v, bits) LB_RNN_OP(sra_epi32)(v, _mm_cvtsi32_si128(bits))

#endif
