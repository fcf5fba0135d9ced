#include "lb.h"

lb_avg_pool_s8_fn lb_avg_pool_s8__ref;

#define ELEMENT int8_t
#define PARAMS lb_avg_pool_s8_params
#define KERNEL lb_avg_pool_s8__ref
#include "lb_avg_pool_ref_body.h"
