#include "lb.h"

lb_avg_pool_s8_fn lb_avg_pool_s8__ref;

#define ELEMENT int8_t
#define RESULT int8_t
#define PARAMS lb_avg_pool_s8_params
#define KERNEL lb_avg_pool_s8__ref
#define FINISH(p, sum, multiplier) (int8_t)lb_requantize(sum, multiplier, (p)->y_zero, (p)->lo, (p)->hi)
#define EMPTY lb_f32_from_s32(0)
#include "lb_avg_pool_ref_body.h"
