/* The frame of an operation on two floats: the file that includes it says what `of(a, b)` is, and names the contract. */
#ifndef LB_BINARY_F32_H
#define LB_BINARY_F32_H

#include "lb.h"
#include "lb_float.h"
#include "lb_walk.h"

#define LB_BINARY_F32(contract)                                                                                                            \
    void lb_##contract##__ref(const lb_##contract##_params *p, const float *a, const float *b, float *out, int32_t begin, int32_t end) {   \
        for (lb_run r; begin < end; begin += r.count) {                                                                                    \
            r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);                                                                 \
            for (int32_t i = 0; i < r.count; i++)                                                                                          \
                out[r.at + i] = lb_clampf(of(a[r.a + i * p->a_stride[3]], b[r.b + i * p->b_stride[3]]), p->lo, p->hi);                     \
        }                                                                                                                                  \
    }

#endif
