#include "lb.h"

lb_norm_s8_fn lb_norm_s8__ref;

#define ELEMENT int8_t
#define PARAMS lb_norm_s8_params
#define KERNEL lb_norm_s8__ref
#include "lb_norm_ref_body.h"
