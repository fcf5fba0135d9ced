/* 16-bit states on AVX2: the words of rnn_s16_lanes.h by vpmaddwd. */
#ifndef LB_RNN_S16_AVX2_H
#define LB_RNN_S16_AVX2_H

#include "rnn/rnn_avx2.h"

#define lb_pairs_read(from) _mm256_load_si256((const __m256i *)(const void *)(from))
#define lb_pairs_add(c, x, v) _mm256_add_epi32(c, _mm256_madd_epi16(x, v))
#define lb_pairs_upper(x) _mm256_srai_epi16(x, 8)
#define lb_pairs_lower(x) _mm256_and_si256(x, _mm256_set1_epi16(255))
#define lb_ints_store(to, v) _mm256_store_si256((__m256i *)(void *)(to), v)

#include "rnn/rnn_s16_lanes.h"

#endif
