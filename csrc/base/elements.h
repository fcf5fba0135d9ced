/* Elements whose width a contract leaves to its params: integers of 1 or 2 bytes in, integers of 1 or 2 bytes or floats (4) out. */
#ifndef LB_ELEMENTS_H
#define LB_ELEMENTS_H

#include "base/numerics.h"

#include <stddef.h>

static inline int32_t lb_element(const void *x, int32_t bytes, ptrdiff_t i) {
    return bytes == 1 ? ((const int8_t *)x)[i] : ((const int16_t *)x)[i];
}

/* The real v as element i of out: itself, or clamp(rne(v) + zero_point). */
static inline void lb_put(void *out, int32_t bytes, ptrdiff_t i, lb_f32 v, int32_t zero_point, int32_t lo, int32_t hi) {
    if (bytes == 4)
        ((lb_f32 *)out)[i] = v;
    else if (bytes == 2)
        ((int16_t *)out)[i] = (int16_t)lb_round_clamp(v, zero_point, lo, hi);
    else
        ((int8_t *)out)[i] = (int8_t)lb_round_clamp(v, zero_point, lo, hi);
}

#endif
