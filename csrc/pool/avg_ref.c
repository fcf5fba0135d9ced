#include "lb.h"

lb_avg_pool_s8_fn lb_avg_pool_s8__ref;

#define ELEMENT int8_t
#define RESULT int8_t
#define PARAMS lb_avg_pool_s8_params
#define KERNEL lb_avg_pool_s8__ref
#define FINISH(p, sum, multiplier) (int8_t)lb_requantize(sum, multiplier, (p)->y_zero, (p)->lo, (p)->hi)
#define EMPTY lb_f32_from_s32(0)
#include "pool/avg_pool_ref_body.h"

lb_avg_pool_s8_f32_fn lb_avg_pool_s8_f32__ref;

#define ELEMENT int8_t
#define RESULT lb_f32
#define PARAMS lb_avg_pool_s8_f32_params
#define KERNEL lb_avg_pool_s8_f32__ref
#define FINISH(p, sum, multiplier) lb_f32_mul(lb_f32_from_s32(sum), multiplier)
#define EMPTY lb_f32_of_bits(0xFFC00000u) /* NaN */
#include "pool/avg_pool_ref_body.h"

lb_avg_pool_s16_fn lb_avg_pool_s16__ref;

#define ELEMENT int16_t
#define RESULT int16_t
#define PARAMS lb_avg_pool_s16_params
#define KERNEL lb_avg_pool_s16__ref
#define FINISH(p, sum, multiplier) (int16_t)lb_requantize(sum, multiplier, (p)->y_zero, (p)->lo, (p)->hi)
#define EMPTY lb_f32_from_s32(0)
#include "pool/avg_pool_ref_body.h"

lb_avg_pool_s16_f32_fn lb_avg_pool_s16_f32__ref;

#define ELEMENT int16_t
#define RESULT lb_f32
#define PARAMS lb_avg_pool_s16_f32_params
#define KERNEL lb_avg_pool_s16_f32__ref
#define FINISH(p, sum, multiplier) lb_f32_mul(lb_f32_from_s32(sum), multiplier)
#define EMPTY lb_f32_of_bits(0xFFC00000u) /* NaN */
#include "pool/avg_pool_ref_body.h"
