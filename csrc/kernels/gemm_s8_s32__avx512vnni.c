#include "lb_quads_avx512vnni.h"

#include "lb_gemm_s8_vnni.h"

lb_gemm_s8_s32_fn lb_gemm_s8_s32__avx512vnni;

void lb_gemm_s8_s32__avx512vnni(const lb_gemm_s8_s32_params *p, const int8_t *a, const int32_t *a_zero_points, const void *packed,
                                int32_t *out, void *scratch) {
    lb_quads_gemm_s32(p, a, a_zero_points, packed, out, scratch);
}
