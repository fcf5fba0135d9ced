/* attention_f32 on vectors of any width: the words of f32_avx2.h or another stand before this. */
#ifndef LB_ATTENTION_F32_SIMD_H
#define LB_ATTENTION_F32_SIMD_H

#include "attention/attention_f32.h"
#include "gemm/panel_f32.h"
#include "base/rows_f32.h"

void LB_SIMD(attention_f32)(const lb_attention_f32_params *p, const float *q, const float *k, const float *v, const void *mask, float *out,
                            void *scratch, int32_t begin, int32_t end) {
    float *scores = scratch;
    const ptrdiff_t stride = p->keys + 16;
    float *panel = scores + p->block * stride;
    for (int32_t item = begin; item < end; item++) {
        const lb_attention_item b = lb_attention_at(p, item);
        const int32_t rows = b.bottom - b.top, keys = p->causal && b.bottom < p->keys ? b.bottom : p->keys;
        const float *from = q + lb_head(p->q_stride, b) + (ptrdiff_t)b.top * p->q_stride[2];
        lb_rows_times(from, p->q_stride[2], rows, p->depth, k + lb_head(p->k_stride, b), 1, p->k_stride[2], keys, panel, scores, stride);
        for (int32_t i = 0; i < rows; i++) {
            float *row = scores + i * stride;
            lb_row_scale(row, p->scale, keys);
            lb_masked(p, mask, b, b.top + i, keys, row);
            const float most = lb_row_max(row, keys), total = lb_row_exp(row, most == -LB_INFINITY ? 0.0f : most, keys, row);
            lb_row_scale(row, total == 0.0f ? 1.0f : 1.0f / total, keys);
        }
        lb_rows_times(scores, stride, rows, keys, v + lb_head(p->v_stride, b), p->v_stride[2], 1, p->width, panel,
                      out + lb_head(p->out_stride, b) + (ptrdiff_t)b.top * p->out_stride[2], p->out_stride[2]);
    }
}

#endif
