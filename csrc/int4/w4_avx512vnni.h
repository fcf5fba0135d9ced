/* Weights of four bits on AVX-512-VNNI. */
#ifndef LB_W4_AVX512VNNI_H
#define LB_W4_AVX512VNNI_H

#include "linear/dot4/dot4_avx512vnni.h"

enum { LB_W4_FEW = 16, LB_W4_WIDE = 2, LB_W4_BY_GROUPS = 0, LB_W4_STARTS = 1 }; /* w4_rows_avx2.h explains them */
enum { LB_W4_FEW_CHANNELS = 64 };                                               /* rows that are few where there is one segment */

#include "int4/w4_dot_avx512vnni.h"

#endif
