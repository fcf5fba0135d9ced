#include "lb_quads_avx512vnni.h"

#include "lb_gemm_s8_vnni.h"

lb_gemm_s8_sizes_fn lb_gemm_s8_sizes__avx512vnni;

void lb_gemm_s8_sizes__avx512vnni(const lb_gemm_s8_sizes_params *p, int64_t *bytes) {
    lb_quads_gemm_sizes(p, bytes);
}
