/* Vectors of AVX-VNNI: eight lanes; tiles of 6 rows and 16 columns take 12 accumulators, two vectors of weights and one of a row. */
#ifndef LB_DOT4_AVXVNNI_H
#define LB_DOT4_AVXVNNI_H

#include "base/vnni.h"

typedef __m256i lb_vec;

enum { LB_LANES = 8, LB_ROWS = 6, LB_PANEL_VECS = 2, LB_FEW_ROWS = 0, LB_APART = 8 };
#define LB_WIDE 2

#define lb_vec_load(from) _mm256_load_si256((const __m256i *)(const void *)(from))
#define lb_vec_store(to, v) _mm256_store_si256((__m256i *)(void *)(to), v)
#define lb_vec_all(v) _mm256_set1_epi32(v)
#define lb_vec_add(a, b) _mm256_add_epi32(a, b)
#define lb_vec_dot(c, a, w) lb_dpbusd256(c, a, w)

#define lb_vec_low(v) (v)[0] /* of the vectors of a panel: columns 0-7 */
#define lb_vec_high(v) (v)[1]

#include "linear/dot4/dot4_vnni.h"

#include "linear/dot4/dot4_epilogue_avx2.h"

#include "linear/dot4/dot4_tiles_vnni.h"

#endif
