#include "lb.h"

lb_gemm_s16_s64_fn lb_gemm_s16_s64__ref;

void lb_gemm_s16_s64__ref(const lb_gemm_s16_s64_params *p, const int16_t *a, const int16_t *b, int64_t *out, void *scratch) {
    (void)scratch;
    for (int32_t i = 0; i < p->m; i++) {
        int64_t *row = out + i * p->out_stride;
        for (int32_t j = 0; j < p->n; j++)
            row[j] = 0;
        for (int32_t k = 0; k < p->k; k++)
            for (int32_t j = 0; j < p->n; j++)
                row[j] += (int32_t)a[i * p->a_stride + k] * b[k * p->b_stride + j];
    }
}
