/* Weights of four bits on AVX2. */
#ifndef LB_W4_AVX2_H
#define LB_W4_AVX2_H

enum { LB_W4_FEW = 4, LB_W4_WIDE = 1, LB_W4_BY_GROUPS = 1, LB_W4_STARTS = 0 }; /* w4_rows_avx2.h explains them */

#include "int4/w4_maddubs_avx2.h"

#include "int4/w4_few_avx2.h"

#include "int4/w4_groups_avx2.h"

#include "int4/w4_multiply_avx2.h"

#endif
