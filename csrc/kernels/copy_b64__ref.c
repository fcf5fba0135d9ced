#include "lb.h"

lb_copy_b64_fn lb_copy_b64__ref;

#define ELEMENT uint64_t
#define PARAMS lb_copy_b64_params
#define KERNEL lb_copy_b64__ref
#include "lb_copy_ref_body.h"
