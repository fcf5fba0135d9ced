#include "lb_gemm_s8_ref.h"

lb_gemm_s8_sizes_fn lb_gemm_s8_sizes__ref;

void lb_gemm_s8_sizes__ref(const lb_gemm_s8_sizes_params *p, int64_t *bytes) {
    bytes[0] = (int64_t)p->n * (p->k + 4 * (int64_t)lb_segments(p->k, p->segment));
    bytes[1] = 0;
}
