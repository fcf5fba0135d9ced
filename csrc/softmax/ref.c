#include "lb.h"
#include "softmax/softmax_row.h"

lb_softmax_int_fn lb_softmax_int__ref;

void lb_softmax_int__ref(const lb_softmax_int_params *p, const void *x, const int32_t *table, void *out, int32_t begin, int32_t end) {
    for (int32_t item = begin; item < end; item++)
        lb_softmax_item(p, x, table, out, item);
}
