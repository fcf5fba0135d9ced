#include "lb_where.h"

LB_DEFINE_WHERE(where_b32, uint32_t)
