#include "lb_where.h"

LB_DEFINE_WHERE(where_b64, uint64_t)
