#include "lb.h"

lb_avg_pool_s16_fn lb_avg_pool_s16__ref;

#define ELEMENT int16_t
#define PARAMS lb_avg_pool_s16_params
#define KERNEL lb_avg_pool_s16__ref
#include "lb_avg_pool_ref_body.h"
