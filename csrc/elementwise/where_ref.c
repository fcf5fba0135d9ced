/* Choices between elements of one size as a kernel. */
#include "lb.h"

#include <stddef.h>

static inline ptrdiff_t lb_place(const int32_t shape[4], const int32_t stride[4], int32_t at) {
    ptrdiff_t sum = 0;
    for (int axis = 3; axis >= 0; axis--) {
        sum += (ptrdiff_t)(at % shape[axis]) * stride[axis];
        at /= shape[axis];
    }
    return sum;
}

#define LB_DEFINE_WHERE(contract, element)                                                                                                 \
    void lb_##contract##__ref(const lb_##contract##_params *p, const uint8_t *mask, const element *a, const element *b, element *out,      \
                              int32_t begin, int32_t end) {                                                                                \
        for (int32_t i = begin; i < end; i++)                                                                                              \
            out[i] = mask[lb_place(p->shape, p->mask_stride, i)] ? a[lb_place(p->shape, p->a_stride, i)]                                   \
                                                                 : b[lb_place(p->shape, p->b_stride, i)];                                  \
    }

lb_where_b32_fn lb_where_b32__ref;

LB_DEFINE_WHERE(where_b32, uint32_t)

lb_where_b64_fn lb_where_b64__ref;

LB_DEFINE_WHERE(where_b64, uint64_t)
