#include "lb_compare.h"

LB_DEFINE_COMPARE(compare_s64, int64_t)
