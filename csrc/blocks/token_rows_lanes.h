/* token_rows.h and block_quantize over the words of sixteen lanes (lanes16_avx2.h, lanes16_avx512.h stand before this). */
#ifndef LB_TOKEN_ROWS_LANES_H
#define LB_TOKEN_ROWS_LANES_H

#include "lb.h"

/* 1 / the root of the mean of squares. */
LB_INLINE float lb_inverse_rms(const lb_rms_norm_rows_params *p, const float *x) {
    lb_l16 sum = lb_l16_zero();
    int32_t i = 0;
    for (; i + 16 <= p->n; i += 16) {
        const lb_l16 v = lb_l16_load(x + i);
        sum = lb_l16_add(sum, lb_l16_mul(v, v));
    }
    if (i < p->n) {
        const lb_l16 v = lb_l16_get(x + i, p->n - i);
        sum = lb_l16_add(sum, lb_l16_mul(v, v));
    }
    return 1.0f / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(lb_l16_sum(sum) / (float)p->n + p->eps)));
}

LB_INLINE lb_l16 lb_gated(int32_t function, lb_l16 g, lb_l16 up) {
    if (function == 0)
        return lb_l16_mul(lb_l16_mul(g, lb_l16_sigmoid(g)), up);
    const lb_l16 cube = lb_l16_mul(lb_l16_mul(lb_l16_mul(lb_l16_all(0.044715f), g), g), g);
    const lb_l16 inner = lb_l16_mul(lb_l16_all(0.7978845608f), lb_l16_add(g, cube));
    return lb_l16_mul(lb_l16_mul(lb_l16_mul(lb_l16_all(0.5f), g), lb_l16_add(lb_l16_all(1.0f), lb_l16_tanh(inner))), up);
}

LB_INLINE void lb_lanes_block_quantize(const lb_block_quantize_params *p, const float *x, uint8_t *out, int32_t begin, int32_t end) {
    const ptrdiff_t blocks = p->size / LB_BLOCK;
    for (ptrdiff_t i = begin * blocks; i < end * blocks; i++)
        lb_l16_quantize(lb_l16_load(x + LB_BLOCK * i), lb_l16_load(x + LB_BLOCK * i + 16), out + LB_BLOCK_RECORD * i);
}

LB_INLINE void lb_lanes_rms_norm_rows(const lb_rms_norm_rows_params *p, const float *x, const float *weight, float *out, int32_t begin,
                                      int32_t end) {
    for (ptrdiff_t row = begin; row < end; row++) {
        const lb_l16 r = lb_l16_all(lb_inverse_rms(p, x + row * p->n));
        int32_t i = 0;
        for (; i + 16 <= p->n; i += 16)
            lb_l16_store(out + row * p->n + i, lb_l16_mul(lb_l16_mul(lb_l16_load(x + row * p->n + i), r), lb_l16_load(weight + i)));
        if (i < p->n) {
            const lb_l16 v = lb_l16_mul(lb_l16_mul(lb_l16_get(x + row * p->n + i, p->n - i), r), lb_l16_get(weight + i, p->n - i));
            lb_l16_put(out + row * p->n + i, v, p->n - i);
        }
    }
}

LB_INLINE void lb_lanes_rms_norm_blocks(const lb_rms_norm_blocks_params *p, const float *x, const float *weight, uint8_t *out,
                                        int32_t begin, int32_t end) {
    for (ptrdiff_t row = begin; row < end; row++) {
        const float *from = x + row * p->n;
        uint8_t *to = out + row * (p->n / LB_BLOCK) * LB_BLOCK_RECORD;
        const lb_l16 r = lb_l16_all(lb_inverse_rms(p, from));
        for (int32_t i = 0; i < p->n; i += LB_BLOCK, to += LB_BLOCK_RECORD)
            lb_l16_quantize(lb_l16_mul(lb_l16_mul(lb_l16_load(from + i), r), lb_l16_load(weight + i)),
                            lb_l16_mul(lb_l16_mul(lb_l16_load(from + i + 16), r), lb_l16_load(weight + i + 16)), to);
    }
}

LB_INLINE void lb_lanes_gate_rows(const lb_gate_rows_params *p, const float *g, const float *up, float *out, int32_t begin, int32_t end) {
    const ptrdiff_t last = (ptrdiff_t)end * LB_BLOCK < p->size ? (ptrdiff_t)end * LB_BLOCK : p->size;
    ptrdiff_t i = (ptrdiff_t)begin * LB_BLOCK;
    for (; i + 16 <= last; i += 16)
        lb_l16_store(out + i, lb_gated(p->function, lb_l16_load(g + i), lb_l16_load(up + i)));
    if (i < last)
        lb_l16_put(out + i, lb_gated(p->function, lb_l16_get(g + i, last - i), lb_l16_get(up + i, last - i)), last - i);
}

LB_INLINE void lb_lanes_gate_blocks(const lb_gate_blocks_params *p, const float *g, const float *up, uint8_t *out, int32_t begin,
                                    int32_t end) {
    for (ptrdiff_t item = begin; item < end; item++) {
        const float *a = g + LB_BLOCK * item, *b = up + LB_BLOCK * item;
        lb_l16_quantize(lb_gated(p->function, lb_l16_load(a), lb_l16_load(b)),
                        lb_gated(p->function, lb_l16_load(a + 16), lb_l16_load(b + 16)), out + LB_BLOCK_RECORD * item);
    }
}

#endif
