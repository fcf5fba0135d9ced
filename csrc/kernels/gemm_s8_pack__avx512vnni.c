#include "lb_quads_avx512vnni.h"

#include "lb_gemm_s8_vnni.h"

lb_gemm_s8_pack_fn lb_gemm_s8_pack__avx512vnni;

void lb_gemm_s8_pack__avx512vnni(const lb_gemm_s8_pack_params *p, const int8_t *b, const int32_t *zero_points, void *packed) {
    lb_quads_gemm_pack(p, b, zero_points, packed);
}
