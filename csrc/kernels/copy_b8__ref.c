#include "lb.h"

lb_copy_b8_fn lb_copy_b8__ref;

#define ELEMENT uint8_t
#define PARAMS lb_copy_b8_params
#define KERNEL lb_copy_b8__ref
#include "lb_copy_ref_body.h"
