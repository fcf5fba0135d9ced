/* Sixteen ones to multiply sums of 16 bits with, for assembly that has no register left to hold them. */
#ifndef LB_ONES_AVX2_H
#define LB_ONES_AVX2_H

#include <stdint.h>

static const _Alignas(32) int16_t lb_ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

#endif
