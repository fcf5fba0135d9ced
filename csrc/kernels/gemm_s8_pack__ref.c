#include "lb_gemm_s8_ref.h"

lb_gemm_s8_pack_fn lb_gemm_s8_pack__ref;

void lb_gemm_s8_pack__ref(const lb_gemm_s8_pack_params *p, const int8_t *b, const int32_t *zero_points, void *packed) {
    const int32_t flip = p->b_unsigned ? 128 : 0;
    int32_t *z = lb_ref_zero_points(packed);
    for (int64_t i = 0; i < (int64_t)lb_segments(p->k, p->segment) * p->n; i++)
        z[i] = zero_points[i] - flip;
    int8_t *column = lb_ref_columns(packed, p->k, p->n, p->segment);
    for (int32_t j = 0; j < p->n; j++, column += p->k)
        for (int32_t k = 0; k < p->k; k++)
            column[k] = (int8_t)(b[k * p->row_stride + j * p->column_stride] ^ -flip);
}
