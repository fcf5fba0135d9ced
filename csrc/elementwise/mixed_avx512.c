#include "base/ints_avx512.h"
#include "elementwise/mixed_simd.h"

lb_add_s16_fn lb_add_s16__avx512;

void lb_add_s16__avx512(const lb_add_s16_params *p, const int16_t *a, const int16_t *b, int16_t *out, int32_t begin, int32_t end) {
    lb_mixed_add(p, 2, 2, 2, a, b, out, begin, end);
}

lb_add_int_fn lb_add_int__avx512;

void lb_add_int__avx512(const lb_add_int_params *p, const void *a, const void *b, void *out, int32_t begin, int32_t end) {
    lb_add_s16_params q = {.a_multiplier = p->a_multiplier, .b_multiplier = p->b_multiplier, .offset = p->offset, .lo = p->lo, .hi = p->hi};
    for (int i = 0; i < 4; i++)
        q.shape[i] = p->shape[i], q.a_stride[i] = p->a_stride[i], q.b_stride[i] = p->b_stride[i];
    lb_mixed_add(&q, p->a_bytes, p->b_bytes, p->out_bytes, a, b, out, begin, end);
}

lb_mul_int_fn lb_mul_int__avx512;

void lb_mul_int__avx512(const lb_mul_int_params *p, const void *a, const void *b, void *out, int32_t begin, int32_t end) {
    lb_mixed_product(p, a, b, out, begin, end);
}
