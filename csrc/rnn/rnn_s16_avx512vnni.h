/* 16-bit states on AVX-512-VNNI: the words of rnn_s16_lanes.h by vpdpwssd. */
#ifndef LB_RNN_S16_AVX512VNNI_H
#define LB_RNN_S16_AVX512VNNI_H

#include "rnn/rnn_avx512vnni.h"

#define lb_pairs_read(from) _mm512_load_si512(from)
#define lb_pairs_add(c, x, v) lb_dpwssd512(c, x, v)
#define lb_pairs_upper(x) _mm512_srai_epi16(x, 8)
#define lb_pairs_lower(x) _mm512_and_si512(x, _mm512_set1_epi16(255))
#define lb_ints_store(to, v) _mm512_store_si512(to, v)

#include "rnn/rnn_s16_lanes.h"

#endif
