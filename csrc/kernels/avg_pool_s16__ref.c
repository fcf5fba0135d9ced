#include "lb.h"

lb_avg_pool_s16_fn lb_avg_pool_s16__ref;

#define ELEMENT int16_t
#define RESULT int16_t
#define PARAMS lb_avg_pool_s16_params
#define KERNEL lb_avg_pool_s16__ref
#define FINISH(p, sum, multiplier) (int16_t)lb_requantize(sum, multiplier, (p)->y_zero, (p)->lo, (p)->hi)
#define EMPTY lb_f32_from_s32(0)
#include "lb_avg_pool_ref_body.h"
