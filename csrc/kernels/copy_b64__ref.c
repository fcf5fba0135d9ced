#include "lb.h"

#include <stddef.h>
#include <string.h>

lb_copy_b64_fn lb_copy_b64__ref;

/* Axes `axis` ... 5; recursion is at most six deep. */
static void copy(const lb_copy_b8_params *p, int axis, const uint64_t *x, uint64_t *out, int32_t begin, int32_t end) {
    const ptrdiff_t from = p->x_stride[axis], to = p->out_stride[axis];
    if (axis < 5)
        for (ptrdiff_t i = begin; i < end; i++)
            copy(p, axis + 1, x + i * from, out + i * to, 0, p->shape[axis + 1]);
    else if (from == 1 && to == 1)
        memcpy(out + begin, x + begin, sizeof *x * (size_t)(end - begin));
    else
        for (ptrdiff_t i = begin; i < end; i++)
            out[i * to] = x[i * from];
}

void lb_copy_b64__ref(const lb_copy_b64_params *p, const uint64_t *x, uint64_t *out, int32_t begin, int32_t end) {
    copy(p, 0, x + p->x_offset, out + p->out_offset, begin, end);
}
