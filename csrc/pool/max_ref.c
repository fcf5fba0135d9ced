#include "lb.h"
#include "base/window.h"

/* The largest element of each window, `least` where there are none. */
#define LB_MAX_POOL(type, least)                                                                                                           \
    const lb_windows g = LB_WINDOWS(p);                                                                                                    \
    LB_EACH_WINDOW (&g, at) {                                                                                                              \
        type *to = out + at.out;                                                                                                           \
        for (int32_t c = 0; c < p->channels; c++)                                                                                          \
            to[c] = least;                                                                                                                 \
        for (int32_t i = at.rows.first; i < at.rows.last; i++)                                                                             \
            for (int32_t j = at.columns.first; j < at.columns.last; j++) {                                                                 \
                const type *from = x + at.image + lb_tap_at(&g, &at, i, j);                                                                \
                for (int32_t c = 0; c < p->channels; c++)                                                                                  \
                    to[c] = from[c] > to[c] ? from[c] : to[c];                                                                             \
            }                                                                                                                              \
    }

lb_max_pool_s8_fn lb_max_pool_s8__ref;

void lb_max_pool_s8__ref(const lb_max_pool_s8_params *p, const int8_t *x, int8_t *out, int32_t begin,
                         int32_t end){LB_MAX_POOL(int8_t, -128)}

lb_max_pool_s16_fn lb_max_pool_s16__ref;

void lb_max_pool_s16__ref(const lb_max_pool_s16_params *p, const int16_t *x, int16_t *out, int32_t begin, int32_t end) {
    LB_MAX_POOL(int16_t, INT16_MIN)
}
