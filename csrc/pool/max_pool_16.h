/* lb_most by vectors of 16 channels. The including file defines lb_v16, lb_v16_load, lb_v16_store, lb_v16_max and lb_v16_all. */
static inline void lb_most(const int8_t *image, ptrdiff_t from, ptrdiff_t down, ptrdiff_t across, lb_taps rows, lb_taps columns, int8_t *to,
                           int32_t count) {
    (void)count;
    lb_v16 most = lb_v16_all(-128);
    for (int32_t i = rows.first; i < rows.last; i++)
        for (int32_t j = columns.first; j < columns.last; j++)
            most = lb_v16_max(most, lb_v16_load(image + (from + i * down + j * across)));
    lb_v16_store(to, most);
}

#define LB_MOST 16
#define LB_REST lb_few
#include "pool/max_pool_body.h"
