/* Sums and products of integers of 8 and 16 bits on vectors of any width: the words of ints_avx2.h or ints_avx512.h stand before this. */
#ifndef LB_MIXED_SIMD_H
#define LB_MIXED_SIMD_H

#include "lb.h"
#include "elementwise/broadcast.h"

/* `count` elements of an operand from `at` on, or the one there as often. */
LB_INLINE lb_ints lb_mixed_load(const void *from, int32_t bytes, ptrdiff_t at, int32_t stride, int32_t i, int32_t count) {
    if (stride)
        return lb_ints_load(from, bytes, at + i, count);
    return lb_ints_all(bytes == 1 ? ((const int8_t *)from)[at] : ((const int16_t *)from)[at]);
}

/* Widths of elements that are constants where this is inlined. */
LB_INLINE void lb_mixed_add(const lb_add_s16_params *p, const int32_t a_bytes, const int32_t b_bytes, const int32_t out_bytes,
                            const void *a, const void *b, void *out, int32_t begin, int32_t end) {
    const lb_ints_target target = lb_ints_target_of(out_bytes, 0, p->lo, p->hi);
    const lb_ints_reals ma = lb_reals_all(p->a_multiplier), mb = lb_reals_all(p->b_multiplier), offset = lb_reals_all(p->offset);
    for (lb_run r; begin < end; begin += r.count) {
        r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);
        for (int32_t i = 0; i < r.count; i += LB_INTS_LANES) {
            const int32_t count = r.count - i;
            const lb_ints u = lb_mixed_load(a, a_bytes, r.a, p->a_stride[3], i, count);
            const lb_ints v = lb_mixed_load(b, b_bytes, r.b, p->b_stride[3], i, count);
            const lb_ints_reals left = lb_reals_add(lb_reals_mul(lb_ints_real(u), ma), offset);
            lb_ints_put(out, r.at + i, lb_reals_add(left, lb_reals_mul(lb_ints_real(v), mb)), count, &target);
        }
    }
}

LB_INLINE void lb_mixed_mul(const int narrow, const lb_mul_int_params *p, const void *a, const void *b, void *out, int32_t begin,
                            int32_t end) {
    const lb_ints_target target = lb_ints_target_of(p->out_bytes, 0, p->lo, p->hi);
    const lb_ints a_zero = lb_ints_all(p->a_zero), b_zero = lb_ints_all(p->b_zero);
    const lb_ints_reals m = lb_reals_all(p->multiplier), y_zero = lb_reals_all((float)p->y_zero);
    for (lb_run r; begin < end; begin += r.count) {
        r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);
        for (int32_t i = 0; i < r.count; i += LB_INTS_LANES) {
            const int32_t count = r.count - i;
            const lb_ints u = lb_ints_sub(lb_mixed_load(a, p->a_bytes, r.a, p->a_stride[3], i, count), a_zero);
            const lb_ints v = lb_ints_sub(lb_mixed_load(b, p->b_bytes, r.b, p->b_stride[3], i, count), b_zero);
            const lb_ints_reals product = narrow ? lb_ints_real(lb_ints_mul(u, v)) : lb_ints_wide_product(u, v);
            lb_ints_put(out, r.at + i, lb_reals_add(lb_reals_mul(product, m), y_zero), count, &target);
        }
    }
}

/* The largest magnitude of an operand less its zero point. */
static inline int64_t lb_mixed_most(int32_t bytes, int32_t zero) {
    return (bytes == 1 ? 128 : 32768) + (zero < 0 ? -(int64_t)zero : zero);
}

static inline void lb_mixed_product(const lb_mul_int_params *p, const void *a, const void *b, void *out, int32_t begin, int32_t end) {
    if (lb_mixed_most(p->a_bytes, p->a_zero) * lb_mixed_most(p->b_bytes, p->b_zero) < (int64_t)1 << 31)
        lb_mixed_mul(1, p, a, b, out, begin, end);
    else
        lb_mixed_mul(0, p, a, b, out, begin, end);
}

#endif
