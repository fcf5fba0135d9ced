/* dot2_avx2.h by vpdpwssd. */
#ifndef LB_DOT2_AVXVNNI_H
#define LB_DOT2_AVXVNNI_H

#define LB_DOT2_BY_VNNI
#include "wide/dot2_avx2.h"

#endif
