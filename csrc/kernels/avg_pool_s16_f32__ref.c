#include "lb.h"

lb_avg_pool_s16_f32_fn lb_avg_pool_s16_f32__ref;

#define ELEMENT int16_t
#define RESULT float
#define PARAMS lb_avg_pool_s16_f32_params
#define KERNEL lb_avg_pool_s16_f32__ref
#define FINISH(p, sum, multiplier) lb_f32_mul(lb_f32_from_s32(sum), multiplier)
#define EMPTY lb_f32_of_bits(0xFFC00000u) /* NaN */
#include "lb_avg_pool_ref_body.h"
