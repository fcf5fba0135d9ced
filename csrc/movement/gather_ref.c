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

enum { NEAR = 1 << 16 }; /* bytes of the output that stay near, in a second-level cache, while indices pass */

/* Items begin ... end - 1, which are of rows top ... last. Neighbours that stay neighbours are one copy; runs of them are found once, for
 * all of these rows. */
static void rows_of(const lb_gather_params *p, const uint8_t *x, const void *index, uint8_t *out, int32_t begin, int32_t end) {
    const int32_t top = begin / p->count, last = (end - 1) / p->count;
    const int32_t from = top == last ? begin % p->count : 0, until = top == last ? (end - 1) % p->count + 1 : p->count;
    for (int32_t at = from, run, next = place(p, index, at); at < until; at += run) {
        const int32_t first = next;
        for (run = 1; at + run < until; run++)
            if ((next = place(p, index, at + run)) != first + run)
                break;
        for (int32_t row = top; row <= last; row++) {
            const int32_t item = row * p->count + at, skip = item < begin ? begin - item : 0;
            const int32_t count = (item + run < end ? run : end - item) - skip;
            if (count <= 0)
                continue;
            const uint8_t *slice = x + ((ptrdiff_t)row * p->size + first + skip) * p->bytes;
            uint8_t *to = out + (ptrdiff_t)(item + skip) * p->bytes;
            if (count == 1 && p->bytes == 1) /* these two without a call */
                *to = *slice;
            else if (count == 1 && p->bytes == 4)
                memcpy(to, slice, 4);
            else
                memcpy(to, slice, (size_t)count * (size_t)p->bytes);
        }
    }
}

/* As many rows at once as keep the written lines in the cache: otherwise every element would touch a cache line of its own. */
void lb_gather__ref(const lb_gather_params *p, const uint8_t *x, const void *index, uint8_t *out, int32_t begin, int32_t end) {
    const int64_t bytes = (int64_t)p->count * p->bytes, step = (bytes > 0 && bytes < NEAR ? NEAR / bytes : 1) * p->count;
    for (int64_t at = begin, next; at < end; at = next) {
        next = at / p->count * p->count + step; /* whole rows, but for the first and the last */
        next = next < end ? next : end;
        rows_of(p, x, index, out, (int32_t)at, (int32_t)next);
    }
}
