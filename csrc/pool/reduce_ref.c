#include "lb.h"
#include "base/scalar_f32.h"
#include "base/math_f32.h"

#include <stddef.h>

lb_reduce_f32_fn lb_reduce_f32__ref;

enum { SUM, SQUARES, SIZES, MOST, LEAST, PRODUCT, CHUNK = 16 };

/* A sum in chunks, whose errors do not grow with all of n. */
static float summed(int32_t kind, const float *x, ptrdiff_t step, int32_t n) {
    float total = 0.0f;
    for (int32_t i = 0; i < n; i += CHUNK) {
        float part = 0.0f;
        for (int32_t j = i; j < i + CHUNK && j < n; j++) {
            const float v = x[j * step];
            part += kind == SQUARES ? v * v : kind == SIZES ? lb_absf(v) : v;
        }
        total += part;
    }
    return total;
}

static float reduced(const lb_reduce_f32_params *p, const float *x, ptrdiff_t step) {
    if (p->kind < MOST)
        return summed(p->kind, x, step, p->n) * p->scale;
    float v = p->kind == MOST ? -LB_INFINITY : p->kind == LEAST ? LB_INFINITY : 1.0f;
    for (int32_t i = 0; i < p->n; i++)
        v = p->kind == MOST ? lb_maxf(v, x[i * step]) : p->kind == LEAST ? lb_minf(v, x[i * step]) : v * x[i * step];
    return v;
}

void lb_reduce_f32__ref(const lb_reduce_f32_params *p, const float *x, float *out, int32_t begin, int32_t end) {
    for (int32_t i = begin; i < end; i++)
        for (int32_t j = 0; j < p->inner; j++) {
            const float v = reduced(p, x + (ptrdiff_t)i * p->n * p->inner + j, p->inner);
            out[(ptrdiff_t)i * p->inner + j] = p->root ? lb_sqrtf(v) : v;
        }
}
