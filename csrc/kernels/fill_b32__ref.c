#include "lb.h"

lb_fill_b32_fn lb_fill_b32__ref;

void lb_fill_b32__ref(const lb_fill_b32_params *p, uint32_t *out, int32_t begin, int32_t end) {
    for (int32_t i = begin; i < end; i++)
        out[i] = p->value;
}
