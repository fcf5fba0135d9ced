#include "lb.h"

lb_gemm_b1_s32_fn lb_gemm_b1_s32__ref;

/* Bits that are set: pairs, nibbles, bytes, and the sum of the bytes in the top one. */
static int32_t ones(uint64_t v) {
    v -= v >> 1 & 0x5555555555555555u;
    v = (v & 0x3333333333333333u) + (v >> 2 & 0x3333333333333333u);
    v = (v + (v >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
    return (int32_t)(v * 0x0101010101010101u >> 56);
}

void lb_gemm_b1_s32__ref(const lb_gemm_b1_s32_params *p, const uint64_t *a, const uint64_t *b, int32_t *out) {
    for (int32_t i = 0; i < p->m; i++)
        for (int32_t j = 0; j < p->n; j++) {
            int32_t differ = 0;
            for (int32_t w = 0; w < p->words; w++)
                differ += ones(a[(int64_t)i * p->words + w] ^ b[(int64_t)j * p->words + w]);
            out[i * p->out_stride + j] = p->k - 2 * differ;
        }
}
