#include "lb.h"

#include <stddef.h>
#include <string.h>

lb_gather_fn lb_gather__ref;

/* Where index number `at` points to, inside. */
static int32_t place(const lb_gather_params *p, const void *index, int32_t at) {
    int64_t i = p->index_bytes == 8 ? ((const int64_t *)index)[at] : ((const int32_t *)index)[at];
    i = i < 0 ? i + p->size : i;
    return (int32_t)(i < 0 ? 0 : i < p->size ? i : p->size - 1);
}

void lb_gather__ref(const lb_gather_params *p, const uint8_t *x, const void *index, uint8_t *out, int32_t begin, int32_t end) {
    for (int32_t item = begin; item < end;) {
        const int32_t at = item % p->count, left = p->count - at < end - item ? p->count - at : end - item;
        const uint8_t *row = x + (ptrdiff_t)(item / p->count) * p->size * p->bytes;
        uint8_t *to = out + (ptrdiff_t)item * p->bytes;
        int32_t i = place(p, index, at);
        for (int32_t done = 0, run; done < left; done += run) { /* neighbours that stay neighbours are one copy */
            const int32_t first = i;
            for (run = 1; done + run < left; run++)
                if ((i = place(p, index, at + done + run)) != first + run)
                    break;
            const uint8_t *from = row + (ptrdiff_t)first * p->bytes;
            if (run == 1 && p->bytes == 4)
                memcpy(to, from, 4); /* no call */
            else
                memcpy(to, from, (size_t)run * (size_t)p->bytes);
            to += (ptrdiff_t)run * p->bytes;
        }
        item += left;
    }
}
