/* Operations on two vectors of floats: `of` is an expression of a and b. The words of vectors (f32_avx2.h or another) stand before. */
#ifndef LB_BINARY_F32_SIMD_H
#define LB_BINARY_F32_SIMD_H

#include "lb.h"
#include "elementwise/broadcast.h"

/* Neighbours, or one of them again and again. */
static inline lb_v lb_operand(const float *from, int32_t stride) {
    return stride ? lb_v_load(from) : lb_v_all(*(from));
}

static inline lb_v lb_some(const float *from, int32_t stride, int32_t n) {
    return stride ? lb_v_get(from, n, 1.0f) : lb_v_all(*from);
}

#define LB_BINARY_F32(contract, of)                                                                                                        \
    static inline lb_v contract##_of(lb_v a, lb_v b) {                                                                                     \
        return of;                                                                                                                         \
    }                                                                                                                                      \
    void LB_SIMD(contract)(const lb_##contract##_params *p, const float *a, const float *b, float *out, int32_t begin, int32_t end) {      \
        const lb_v lo = lb_v_all(p->lo), hi = lb_v_all(p->hi);                                                                             \
        const int32_t da = p->a_stride[3], db = p->b_stride[3];                                                                            \
        for (lb_run r; begin < end; begin += r.count) {                                                                                    \
            r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);                                                                 \
            const float *left = a + r.a, *right = b + r.b;                                                                                 \
            int32_t i = 0;                                                                                                                 \
            for (; i <= r.count - LB_LANES; i += LB_LANES)                                                                                 \
                lb_v_store(out + r.at + i,                                                                                                 \
                           LB_V(clamp)(contract##_of(lb_operand(left + i * da, da), lb_operand(right + i * db, db)), lo, hi));             \
            if (i < r.count) {                                                                                                             \
                const int32_t n = r.count - i;                                                                                             \
                lb_v_put(out + r.at + i,                                                                                                   \
                         LB_V(clamp)(contract##_of(lb_some(left + i * da, da, n), lb_some(right + i * db, db, n)), lo, hi), n);            \
            }                                                                                                                              \
        }                                                                                                                                  \
    }

#endif
