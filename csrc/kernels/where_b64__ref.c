#include "lb.h"

#include <stddef.h>

lb_where_b64_fn lb_where_b64__ref;

static ptrdiff_t place(const int32_t shape[4], const int32_t stride[4], int32_t at) {
    ptrdiff_t sum = 0;
    for (int axis = 3; axis >= 0; axis--) {
        sum += (ptrdiff_t)(at % shape[axis]) * stride[axis];
        at /= shape[axis];
    }
    return sum;
}

void lb_where_b64__ref(const lb_where_b64_params *p, const uint8_t *mask, const uint64_t *a, const uint64_t *b, uint64_t *out,
                       int32_t begin, int32_t end) {
    for (int32_t i = begin; i < end; i++)
        out[i] = mask[place(p->shape, p->mask_stride, i)] ? a[place(p->shape, p->a_stride, i)] : b[place(p->shape, p->b_stride, i)];
}
