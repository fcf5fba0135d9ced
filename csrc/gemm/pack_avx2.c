#include "gemm/gemm_s8_avx2.h"
#include "gemm/gemm_s8_pack_avx2.h"

lb_gemm_s8_sizes_fn lb_gemm_s8_sizes__avx2;

void lb_gemm_s8_sizes__avx2(const lb_gemm_s8_sizes_params *p, int64_t *bytes) {
    const lb_cut cut = lb_cut_of(p->k, p->segment);
    bytes[0] = lb_round_up(p->n, LB_PANEL) * (cut.segments * 4 + cut.depth * 2);
    bytes[1] = lb_scratch_at(0, p->m, cut).bytes;
}

lb_gemm_s8_pack_fn lb_gemm_s8_pack__avx2;

void lb_gemm_s8_pack__avx2(const lb_gemm_s8_pack_params *p, const int8_t *b, const int32_t *zero_points, void *packed) {
    lb_pack_panels(p, b, zero_points, lb_b_pairs(packed), lb_b_panels(packed, p->n, lb_cut_of(p->k, p->segment)));
}
