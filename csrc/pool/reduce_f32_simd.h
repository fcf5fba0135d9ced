/* reduce_f32 on vectors of any width: the words of f32_avx2.h or another stand before this. */
#ifndef LB_REDUCE_F32_SIMD_H
#define LB_REDUCE_F32_SIMD_H

#include "lb.h"
#include "base/math_f32.h"

#include <stddef.h>

enum { SUM, SQUARES, SIZES, MOST, LEAST, PRODUCT, CHAINS = 4 };

__attribute__((always_inline)) static inline lb_v joined(const int kind, lb_v total, lb_v v) {
    switch (kind) {
    case SUM:
        return lb_v_add(total, v);
    case SQUARES:
        return lb_v_fma(v, v, total);
    case SIZES:
        return lb_v_add(total, LB_V(abs)(v));
    case MOST:
        return LB_V(max)(total, v);
    case LEAST:
        return LB_V(min)(total, v);
    default:
        return lb_v_mul(total, v);
    }
}

static float start_of(int kind) {
    return kind == MOST ? -LB_INFINITY : kind == LEAST ? LB_INFINITY : kind == PRODUCT ? 1.0f : 0.0f;
}

/* Two results made of the same kind of terms: |x| and squares are sums by then. */
__attribute__((always_inline)) static inline lb_v met(const int kind, lb_v a, lb_v b) {
    return joined(kind < MOST ? SUM : kind, a, b);
}

__attribute__((always_inline)) static inline float along(const int kind, const float *x, int32_t n) {
    const lb_v start = lb_v_all(start_of(kind));
    lb_v s[CHAINS] = {start, start, start, start};
    int32_t i = 0;
    for (; i <= n - LB_LANES * CHAINS; i += LB_LANES * CHAINS)
#pragma GCC unroll 4
        for (int c = 0; c < CHAINS; c++)
            s[c] = joined(kind, s[c], lb_v_load(x + i + LB_LANES * c));
    for (; i <= n - LB_LANES; i += LB_LANES)
        s[0] = joined(kind, s[0], lb_v_load(x + i));
    float lanes[LB_LANES];
    lb_v_store(lanes, met(kind, met(kind, s[0], s[1]), met(kind, s[2], s[3])));
    for (int32_t j = 0; i < n; i++, j = (j + 1) % LB_LANES)
        lanes[j] = lb_v_first(joined(kind, lb_v_all(lanes[j]), lb_v_all(*(x + i))));
    for (int width = LB_LANES / 2; width; width /= 2)
        for (int j = 0; j < width; j++)
            lanes[j] = lb_v_first(met(kind, lb_v_all(lanes[j]), lb_v_all(lanes[j + width])));
    return lanes[0];
}

/* A chunk of rows at a time, as `ref`, so that errors do not grow with all of n. */
__attribute__((always_inline)) static inline lb_v across(const int kind, const float *x, ptrdiff_t step, int32_t n) {
    lb_v total = lb_v_all(start_of(kind));
    for (int32_t i = 0; i < n; i += 16) {
        lb_v part = lb_v_all(start_of(kind));
        for (int32_t j = i; j < i + 16 && j < n; j++)
            part = joined(kind, part, lb_v_load(x + j * step));
        total = met(kind, total, part);
    }
    return total;
}

__attribute__((always_inline)) static inline void reduce(const int kind, const lb_reduce_f32_params *p, const float *x, float *out,
                                                         int32_t begin, int32_t end) {
    const float scale = kind < MOST ? p->scale : 1.0f;
    for (int32_t i = begin; i < end; i++) {
        const float *from = x + (ptrdiff_t)i * p->n * p->inner;
        float *to = out + (ptrdiff_t)i * p->inner;
        int32_t j = 0;
        if (p->inner == 1)
            to[j++] = along(kind, from, p->n) * scale;
        for (; j <= p->inner - LB_LANES; j += LB_LANES)
            lb_v_store(to + j, lb_v_mul(across(kind, from + j, p->inner, p->n), lb_v_all(scale)));
        for (; j < p->inner; j++) {
            lb_v v = lb_v_all(start_of(kind));
            for (int32_t r = 0; r < p->n; r += 16) {
                lb_v part = lb_v_all(start_of(kind));
                for (int32_t q = r; q < r + 16 && q < p->n; q++)
                    part = joined(kind, part, lb_v_all(*(from + (ptrdiff_t)q * p->inner + j)));
                v = met(kind, v, part);
            }
            to[j] = lb_v_first(v) * scale;
        }
        for (j = 0; p->root && j < p->inner; j++)
            to[j] = lb_sqrtf(to[j]);
    }
}

void LB_SIMD(reduce_f32)(const lb_reduce_f32_params *p, const float *x, float *out, int32_t begin, int32_t end) {
    switch (p->kind) {
    case SUM:
        reduce(SUM, p, x, out, begin, end);
        break;
    case SQUARES:
        reduce(SQUARES, p, x, out, begin, end);
        break;
    case SIZES:
        reduce(SIZES, p, x, out, begin, end);
        break;
    case MOST:
        reduce(MOST, p, x, out, begin, end);
        break;
    case LEAST:
        reduce(LEAST, p, x, out, begin, end);
        break;
    default:
        reduce(PRODUCT, p, x, out, begin, end);
    }
}

#endif
