#include "attention/attention_f32.h"
#include "base/math_f32.h"

lb_attention_f32_fn lb_attention_f32__ref;

void lb_attention_f32__ref(const lb_attention_f32_params *p, const float *q, const float *k, const float *v, const void *mask, float *out,
                           void *scratch, int32_t begin, int32_t end) {
    float *scores = scratch;
    for (int32_t item = begin; item < end; item++) {
        const lb_attention_item b = lb_attention_at(p, item);
        const float *keys = k + lb_head(p->k_stride, b), *values = v + lb_head(p->v_stride, b);
        for (int32_t i = b.top; i < b.bottom; i++) {
            const float *row = q + lb_head(p->q_stride, b) + (ptrdiff_t)i * p->q_stride[2];
            float *to = out + lb_head(p->out_stride, b) + (ptrdiff_t)i * p->out_stride[2];
            for (int32_t j = 0; j < p->keys; j++) {
                float sum = 0.0f;
                for (int32_t d = 0; d < p->depth; d++)
                    sum += row[d] * keys[(ptrdiff_t)j * p->k_stride[2] + d];
                scores[j] = sum * p->scale;
            }
            lb_masked(p, mask, b, i, p->keys, scores);
            float most = -LB_INFINITY, total = 0.0f;
            for (int32_t j = 0; j < p->keys; j++)
                most = lb_maxf(most, scores[j]);
            most = most == -LB_INFINITY ? 0.0f : most;
            for (int32_t j = 0; j < p->keys; j++) {
                scores[j] = lb_expf(scores[j] - most);
                total += scores[j];
            }
            total = total == 0.0f ? 1.0f : total;
            for (int32_t d = 0; d < p->width; d++) {
                float sum = 0.0f;
                for (int32_t j = 0; j < p->keys; j++)
                    sum += scores[j] / total * values[(ptrdiff_t)j * p->v_stride[2] + d];
                to[d] = sum;
            }
        }
    }
}
