#include "lb_compare.h"

LB_DEFINE_COMPARE(compare_f32, float)
