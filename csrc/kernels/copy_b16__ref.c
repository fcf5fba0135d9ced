#include "lb.h"

lb_copy_b16_fn lb_copy_b16__ref;

#define ELEMENT uint16_t
#define PARAMS lb_copy_b16_params
#define KERNEL lb_copy_b16__ref
#include "lb_copy_ref_body.h"
