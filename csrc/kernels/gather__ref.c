#include "lb.h"

#include <stddef.h>
#include <string.h>

lb_gather_fn lb_gather__ref;

void lb_gather__ref(const lb_gather_params *p, const uint8_t *x, const void *index, uint8_t *out, int32_t begin, int32_t end) {
    for (int32_t item = begin; item < end; item++) {
        const int32_t at = item % p->count;
        int64_t i = p->index_bytes == 8 ? ((const int64_t *)index)[at] : ((const int32_t *)index)[at];
        i = i < 0 ? i + p->size : i;
        i = i < 0 ? 0 : i < p->size ? i : p->size - 1;
        const ptrdiff_t slice = (ptrdiff_t)(item / p->count) * p->size + (ptrdiff_t)i;
        memcpy(out + (ptrdiff_t)item * p->bytes, x + slice * p->bytes, (size_t)p->bytes);
    }
}
