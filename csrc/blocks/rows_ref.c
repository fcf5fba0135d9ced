#include "lb.h"
#include "base/exp.h"
#include "base/log.h"
#include "blocks/block_quantize.h"

#include <stddef.h>

/* 1 / the root of the mean of squares. */
static inline float inverse_rms(const lb_rms_norm_rows_params *p, const float *x) {
    float lane[16] = {0};
    for (int32_t i = 0; i < p->n; i++)
        lane[i % 16] = lane[i % 16] + x[i] * x[i];
    for (int32_t width = 8; width; width /= 2)
        for (int32_t j = 0; j < width; j++)
            lane[j] = lane[j] + lane[j + width];
    return 1.0f / lb_sqrt(lane[0] / (float)p->n + p->eps);
}

static inline float gated(int32_t function, float g, float up) {
    if (function == 0)
        return g * lb_sigmoid(g) * up;
    const float inner = 0.7978845608f * (g + ((0.044715f * g) * g) * g);
    return (0.5f * g) * (1.0f + lb_tanh(inner)) * up;
}

lb_rms_norm_rows_fn lb_rms_norm_rows__ref;

void lb_rms_norm_rows__ref(const lb_rms_norm_rows_params *p, const float *x, const float *weight, float *out, int32_t begin, int32_t end) {
    for (ptrdiff_t row = begin; row < end; row++) {
        const float r = inverse_rms(p, x + row * p->n);
        for (int32_t i = 0; i < p->n; i++)
            out[row * p->n + i] = (x[row * p->n + i] * r) * weight[i];
    }
}

lb_rms_norm_blocks_fn lb_rms_norm_blocks__ref;

void lb_rms_norm_blocks__ref(const lb_rms_norm_blocks_params *p, const float *x, const float *weight, uint8_t *out, int32_t begin,
                             int32_t end) {
    for (ptrdiff_t row = begin; row < end; row++) {
        const float r = inverse_rms(p, x + row * p->n);
        for (int32_t i = 0; i < p->n; i += LB_BLOCK) {
            float some[LB_BLOCK];
            lb_block_record record;
            for (int32_t j = 0; j < LB_BLOCK; j++)
                some[j] = (x[row * p->n + i + j] * r) * weight[i + j];
            lb_quantize_block(some, &record);
            memcpy(out + LB_BLOCK_RECORD * ((row * p->n + i) / LB_BLOCK), &record, sizeof record);
        }
    }
}

lb_gate_rows_fn lb_gate_rows__ref;

void lb_gate_rows__ref(const lb_gate_rows_params *p, const float *g, const float *up, float *out, int32_t begin, int32_t end) {
    for (ptrdiff_t i = (ptrdiff_t)begin * LB_BLOCK; i < (ptrdiff_t)end * LB_BLOCK && i < p->size; i++)
        out[i] = gated(p->function, g[i], up[i]);
}

lb_gate_blocks_fn lb_gate_blocks__ref;

void lb_gate_blocks__ref(const lb_gate_blocks_params *p, const float *g, const float *up, uint8_t *out, int32_t begin, int32_t end) {
    for (ptrdiff_t item = begin; item < end; item++) {
        float some[LB_BLOCK];
        lb_block_record record;
        for (int32_t j = 0; j < LB_BLOCK; j++)
            some[j] = gated(p->function, g[item * LB_BLOCK + j], up[item * LB_BLOCK + j]);
        lb_quantize_block(some, &record);
        memcpy(out + LB_BLOCK_RECORD * item, &record, sizeof record);
    }
}

lb_rotary_fn lb_rotary__ref;

void lb_rotary__ref(const lb_rotary_params *p, const float *x, const float *cos, const float *sin, float *out, int32_t begin, int32_t end) {
    const int32_t half = p->dims / 2, apart = p->neighbours ? 1 : half;
    for (ptrdiff_t row = begin; row < end; row++)
        for (int32_t h = 0; h < p->heads; h++) {
            const ptrdiff_t at = (row * p->heads + h) * p->depth;
            for (int32_t i = 0; i < half; i++) {
                const ptrdiff_t first = at + (p->neighbours ? 2 * i : i);
                const float a = x[first], b = x[first + apart], c = cos[row * half + i], s = sin[row * half + i];
                out[first] = a * c - b * s;
                out[first + apart] = b * c + a * s;
            }
            for (int32_t i = p->dims; i < p->depth; i++)
                out[at + i] = x[at + i];
        }
}
