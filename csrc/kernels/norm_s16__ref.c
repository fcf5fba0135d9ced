#include "lb.h"

lb_norm_s16_fn lb_norm_s16__ref;

#define ELEMENT int16_t
#define PARAMS lb_norm_s16_params
#define KERNEL lb_norm_s16__ref
#include "lb_norm_ref_body.h"
