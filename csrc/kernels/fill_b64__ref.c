#include "lb.h"

lb_fill_b64_fn lb_fill_b64__ref;

void lb_fill_b64__ref(const lb_fill_b64_params *p, uint64_t *out, int32_t begin, int32_t end) {
    for (int32_t i = begin; i < end; i++)
        out[i] = p->value;
}
