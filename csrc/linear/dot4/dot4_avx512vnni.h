/* Vectors of AVX-512-VNNI: 16 lanes; tiles of 12 rows and 32 columns take 24 of the 32 registers for accumulators. */
#ifndef LB_DOT4_AVX512VNNI_H
#define LB_DOT4_AVX512VNNI_H

#include "base/vnni.h"

typedef __m512i lb_vec;

enum { LB_LANES = 16, LB_ROWS = 12, LB_PANEL_VECS = 1, LB_FEW_ROWS = 5, LB_APART = 12 };
#define LB_WIDE 4

#define lb_vec_load(from) _mm512_load_si512(from)
#define lb_vec_store(to, v) _mm512_store_si512(to, v)
#define lb_vec_all(v) _mm512_set1_epi32(v)
#define lb_vec_add(a, b) _mm512_add_epi32(a, b)
#define lb_vec_dot(c, a, w) lb_dpbusd512(c, a, w)

#define lb_vec_low(v) _mm512_castsi512_si256((v)[0]) /* of the vectors of a panel: columns 0-7 */
#define lb_vec_high(v) _mm512_extracti64x4_epi64((v)[0], 1)

#include "linear/dot4/dot4_vnni.h"

#include "linear/dot4/dot4_epilogue_avx512.h"

#include "linear/dot4/dot4_tiles_vnni.h"

#endif
