#include "lb_compare.h"

LB_DEFINE_COMPARE(compare_s32, int32_t)
