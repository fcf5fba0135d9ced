/* Accumulators as results, on Cortex-M: what lb_requantize gives, by instructions that round and saturate by themselves. */
#ifndef LB_REQUANTIZE_CORTEX_H
#define LB_REQUANTIZE_CORTEX_H

#include "base/numerics.h"
#include "base/unroll.h"

#include <stddef.h>

typedef enum { LB_TO_S8, LB_TO_S16, LB_TO_F32 } lb_kind;

/* Where results go: a row of an output, and the columns' multipliers. */
typedef struct {
    const lb_f32 *multiplier;
    int32_t zero, lo, hi;
} lb_scaling;

/* clamp(rne(fl32(acc) * multiplier) + zero, lo, hi). The product is no NaN, the conversion saturates: clamping after it is the same. */
LB_INLINE int32_t lb_narrowed(int32_t acc, lb_f32 multiplier, const lb_scaling *s) {
#if defined LB_NO_FLOAT || !defined __ARM_FP || !(__ARM_FP & 4)
    return lb_requantize(acc, multiplier, s->zero, s->lo, s->hi);
#else
    const lb_f32 v = lb_f32_mul(lb_f32_from_s32(acc), multiplier);
    int32_t r;
    __asm__("vcvtr.s32.f32 %0, %1" : "=t"(r) : "t"(v));
    return lb_clamp(r, s->lo - s->zero, s->hi - s->zero) + s->zero;
#endif
}

/* Column j of a row of the output. */
LB_INLINE void lb_put(void *row, int32_t j, int32_t acc, const lb_scaling *s, lb_kind kind) {
    if (kind == LB_TO_F32)
        ((lb_f32 *)row)[j] = lb_f32_mul(lb_f32_from_s32(acc), s->multiplier[j]);
    else if (kind == LB_TO_S16)
        ((int16_t *)row)[j] = (int16_t)lb_narrowed(acc, s->multiplier[j], s);
    else
        ((int8_t *)row)[j] = (int8_t)lb_narrowed(acc, s->multiplier[j], s);
}

/* Element `at` of an output. */
LB_INLINE void *lb_element(void *out, ptrdiff_t at, lb_kind kind) {
    return kind == LB_TO_F32   ? (void *)((lb_f32 *)out + at)
           : kind == LB_TO_S16 ? (void *)((int16_t *)out + at)
                               : (void *)((int8_t *)out + at);
}

#endif
