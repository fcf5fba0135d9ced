/* Weights of four bits on AVX-VNNI. */
#ifndef LB_W4_AVXVNNI_H
#define LB_W4_AVXVNNI_H

#include "linear/dot4/dot4_avxvnni.h"

enum { LB_W4_FEW = 4, LB_W4_WIDE = 1, LB_W4_BY_GROUPS = 0, LB_W4_STARTS = 0 }; /* w4_rows_avx2.h explains them */

#include "int4/w4_vnni.h"

#include "int4/w4_few_avx2.h"

#include "int4/w4_epilogue_avx2.h"

/* No segment is a group (LB_W4_BY_GROUPS). */
#define lb_w4_one_by_groups(...) (void)0
#define lb_w4_many_by_groups(...) (void)0

#include "int4/w4_multiply_avx2.h"

#endif
