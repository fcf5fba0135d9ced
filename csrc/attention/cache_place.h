/* Where tokens are in a paged cache. */
#ifndef LB_CACHE_PLACE_H
#define LB_CACHE_PLACE_H

#include "attention/cache.h"

#include <stddef.h>

enum { LB_PAGE = 32 };

/* The row of the table, or NULL where the sequence does not exist. */
static inline const int32_t *lb_cache_pages(const int32_t *table, int32_t sequences, int32_t slots, int32_t sequence) {
    return sequence < 0 || sequence >= sequences ? NULL : table + (ptrdiff_t)sequence * slots;
}

/* The page of a position, or -1. */
static inline int32_t lb_cache_page(const int32_t *pages_of_sequence, int32_t slots, int32_t pages, int32_t position) {
    if (!pages_of_sequence || position < 0 || position / LB_PAGE >= slots)
        return -1;
    const int32_t page = pages_of_sequence[position / LB_PAGE];
    return page < 0 || page >= pages ? -1 : page;
}

/* The page of the cache into which a row is stored, or NULL where it has none. */
static inline uint16_t *lb_cache_page_of_row(const lb_cache_store_f16_params *p, const int32_t *table, int32_t sequence, int32_t position,
                                             uint16_t *cache) {
    const int32_t page = lb_cache_page(lb_cache_pages(table, p->sequences, p->slots, sequence), p->slots, p->pages, position);
    return page < 0 ? NULL : cache + (ptrdiff_t)page * p->heads * p->depth * LB_PAGE;
}

#endif
