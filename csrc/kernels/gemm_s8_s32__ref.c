#include "lb_gemm_s8_ref.h"

lb_gemm_s8_s32_fn lb_gemm_s8_s32__ref;

void lb_gemm_s8_s32__ref(const lb_gemm_s8_s32_params *p, const int8_t *a, const int32_t *a_zero_points, const void *packed, int32_t *out,
                         void *scratch) {
    (void)scratch;
    const int32_t *zb = lb_ref_zero_points(packed);
    const int8_t *columns = lb_ref_columns(packed, p->k, p->n, p->k ? p->k : 1);
    for (int32_t i = 0; i < p->m; i++)
        for (int32_t j = 0; j < p->n; j++) {
            const int8_t *column = columns + (size_t)j * (size_t)p->k;
            out[i * p->out_stride + j] = lb_ref_dot(a + i * p->a_stride, p->a_unsigned, a_zero_points[i], column, zb[j], p->k);
        }
}
