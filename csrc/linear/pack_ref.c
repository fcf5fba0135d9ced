#include "lb.h"

#include <string.h>

lb_linear_s8_sizes_fn lb_linear_s8_sizes__ref;

void lb_linear_s8_sizes__ref(const lb_linear_s8_sizes_params *p, int64_t *bytes) {
    bytes[0] = (int64_t)p->n * p->k;
    bytes[1] = bytes[2] = 0;
}

lb_linear_s8_pack_fn lb_linear_s8_pack__ref;

void lb_linear_s8_pack__ref(const lb_linear_s8_pack_params *p, const int8_t *w, void *packed, int64_t *used, void *scratch) {
    (void)scratch;
    used[0] = (int64_t)p->n * p->k;
    if (used[0])
        memcpy(packed, w, (size_t)used[0]);
}
