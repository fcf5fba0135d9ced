#include "lb.h"

lb_copy_b32_fn lb_copy_b32__ref;

#define ELEMENT uint32_t
#define PARAMS lb_copy_b32_params
#define KERNEL lb_copy_b32__ref
#include "lb_copy_ref_body.h"
