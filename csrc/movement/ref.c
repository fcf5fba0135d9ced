#include "lb.h"

#include <string.h>

lb_copy_b8_fn lb_copy_b8__ref;

#define ELEMENT uint8_t
#define PARAMS lb_copy_b8_params
#define KERNEL lb_copy_b8__ref
#include "movement/copy_ref_body.h"

lb_copy_b16_fn lb_copy_b16__ref;

#define ELEMENT uint16_t
#define PARAMS lb_copy_b16_params
#define KERNEL lb_copy_b16__ref
#include "movement/copy_ref_body.h"

lb_copy_b32_fn lb_copy_b32__ref;

#define ELEMENT uint32_t
#define PARAMS lb_copy_b32_params
#define KERNEL lb_copy_b32__ref
#include "movement/copy_ref_body.h"

lb_copy_b64_fn lb_copy_b64__ref;

#define ELEMENT uint64_t
#define PARAMS lb_copy_b64_params
#define KERNEL lb_copy_b64__ref
#include "movement/copy_ref_body.h"

lb_fill_b8_fn lb_fill_b8__ref;

void lb_fill_b8__ref(const lb_fill_b8_params *p, uint8_t *out, int32_t begin, int32_t end) {
    memset(out + begin, p->value, (size_t)(end - begin));
}

lb_fill_b32_fn lb_fill_b32__ref;

void lb_fill_b32__ref(const lb_fill_b32_params *p, uint32_t *out, int32_t begin, int32_t end) {
    for (int32_t i = begin; i < end; i++)
        out[i] = p->value;
}

lb_fill_b64_fn lb_fill_b64__ref;

void lb_fill_b64__ref(const lb_fill_b64_params *p, uint64_t *out, int32_t begin, int32_t end) {
    for (int32_t i = begin; i < end; i++)
        out[i] = p->value;
}
