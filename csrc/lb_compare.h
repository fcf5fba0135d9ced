/* Comparisons of one type as a kernel: the bodies are alike, the element is not. */
#ifndef LB_COMPARE_H
#define LB_COMPARE_H

#include "lb.h"
#include "lb_walk.h"

enum { LB_EQUAL, LB_NOT_EQUAL, LB_LESS, LB_LESS_EQUAL, LB_GREATER }; /* what else `kind` may be is greater or equal */

#define LB_DEFINE_COMPARE(contract, element)                                                                                               \
    lb_##contract##_fn lb_##contract##__ref;                                                                                               \
    static int holds(int32_t kind, element a, element b) {                                                                                 \
        switch (kind) {                                                                                                                    \
        case LB_EQUAL:                                                                                                                     \
            return a == b;                                                                                                                 \
        case LB_NOT_EQUAL:                                                                                                                 \
            return a != b;                                                                                                                 \
        case LB_LESS:                                                                                                                      \
            return a < b;                                                                                                                  \
        case LB_LESS_EQUAL:                                                                                                                \
            return a <= b;                                                                                                                 \
        case LB_GREATER:                                                                                                                   \
            return a > b;                                                                                                                  \
        default:                                                                                                                           \
            return a >= b;                                                                                                                 \
        }                                                                                                                                  \
    }                                                                                                                                      \
    void lb_##contract##__ref(const lb_##contract##_params *p, const element *a, const element *b, uint8_t *out, int32_t begin,            \
                              int32_t end) {                                                                                               \
        for (lb_run r; begin < end; begin += r.count) {                                                                                    \
            r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);                                                                 \
            for (int32_t i = 0; i < r.count; i++)                                                                                          \
                out[r.at + i] = (uint8_t)holds(p->kind, a[r.a + i * p->a_stride[3]], b[r.b + i * p->b_stride[3]]);                         \
        }                                                                                                                                  \
    }

#endif
