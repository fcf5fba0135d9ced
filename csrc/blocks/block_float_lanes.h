/* block_linear_f32 over the words of sixteen lanes (lanes16_avx2.h, lanes16_avx512.h stand before this): a panel's outputs are the lanes.
 */
#ifndef LB_BLOCK_FLOAT_LANES_H
#define LB_BLOCK_FLOAT_LANES_H

#include "lb.h"
#include "blocks/block_panel.h"

enum {
    LB_FLOAT_ROWS = LB_L16_REGISTERS == 32 ? 8 : 4, /* of a tile of one panel */
    LB_FLOAT_PANELS = 4,                            /* of a tile of one row: sums that need not wait for each other */
    LB_FLOAT_AHEAD = 2048,                          /* bytes of each panel that are asked for before they are read */
};

LB_INLINE lb_l16 lb_float_weights(const int32_t format, const uint8_t *from) {
    if (format == LB_F32)
        return lb_l16_load((const float *)(const void *)from);
    const uint16_t *halves = (const uint16_t *)(const void *)from;
    return format == LB_F16 ? lb_l16_halves(halves) : lb_l16_bf16(halves);
}

LB_INLINE void lb_float_tile(const int32_t format, const int rows, const int panels, const lb_block_linear_f32_params *p, const float *x,
                             const uint8_t *w, const float *bias, const float *residual, float *out, int32_t row, int32_t panel) {
    enum { MOST = (int)LB_FLOAT_ROWS > (int)LB_FLOAT_PANELS ? LB_FLOAT_ROWS : LB_FLOAT_PANELS };
    const ptrdiff_t bytes = lb_panel_bytes(format, p->k), step = LB_BLOCK_PANEL * (format == LB_F32 ? 4 : 2);
    lb_l16 y[MOST];
    LB_UNROLL_ALL
    for (int i = 0; i < rows * panels; i++)
        y[i] = lb_l16_zero();
    const float *from = x + (ptrdiff_t)row * p->k;
    const uint8_t *at = w + bytes * panel;
    for (int32_t k = 0; k < p->k; k++, at += step) {
        LB_UNROLL_ALL
        for (int j = 0; j < panels; j++) {
            if (rows == 1)
                _mm_prefetch((const char *)((uintptr_t)at + LB_FLOAT_AHEAD + (uintptr_t)(bytes * j)), _MM_HINT_T0);
            const lb_l16 v = lb_float_weights(format, at + bytes * j);
            LB_UNROLL_ALL
            for (int i = 0; i < rows; i++)
                y[i * panels + j] = lb_l16_add(y[i * panels + j], lb_l16_mul(lb_l16_all(from[(ptrdiff_t)i * p->k + k]), v));
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < panels; j++) {
            const int32_t column = LB_BLOCK_PANEL * (panel + j), count = p->n - column;
            const ptrdiff_t to = (ptrdiff_t)(row + i) * p->out_stride + column;
            const ptrdiff_t n = count < LB_BLOCK_PANEL ? count : LB_BLOCK_PANEL;
            lb_l16 sum = y[i * panels + j];
            if (p->has_bias)
                sum = lb_l16_add(sum, lb_l16_get(bias + column, n));
            if (p->has_residual)
                sum = lb_l16_add(sum, lb_l16_get(residual + to, n));
            lb_l16_put(out + to, sum, n);
        }
}

/* A function for each format, so that each has the registers for itself. */
#define LB_FLOAT_FORMAT(name)                                                                                                              \
    static __attribute__((noinline)) void lb_float_##name(const lb_block_linear_f32_params *p, const float *x, const uint8_t *w,           \
                                                          const float *bias, const float *residual, float *out, int32_t begin,             \
                                                          int32_t end) {                                                                   \
        int32_t row = 0;                                                                                                                   \
        for (; row + LB_FLOAT_ROWS <= p->rows; row += LB_FLOAT_ROWS)                                                                       \
            for (int32_t panel = begin; panel < end; panel++)                                                                              \
                lb_float_tile(name, LB_FLOAT_ROWS, 1, p, x, w, bias, residual, out, row, panel);                                           \
        for (; row < p->rows; row++) {                                                                                                     \
            int32_t panel = begin;                                                                                                         \
            for (; panel + LB_FLOAT_PANELS <= end; panel += LB_FLOAT_PANELS)                                                               \
                lb_float_tile(name, 1, LB_FLOAT_PANELS, p, x, w, bias, residual, out, row, panel);                                         \
            for (; panel < end; panel++)                                                                                                   \
                lb_float_tile(name, 1, 1, p, x, w, bias, residual, out, row, panel);                                                       \
        }                                                                                                                                  \
    }

LB_FLOAT_FORMAT(LB_F32)
LB_FLOAT_FORMAT(LB_F16)
LB_FLOAT_FORMAT(LB_BF16)

LB_INLINE void lb_lanes_block_linear_f32(const lb_block_linear_f32_params *p, const float *x, const uint8_t *w, const float *bias,
                                         const float *residual, float *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    if (p->format == LB_F32)
        lb_float_LB_F32(p, x, w, bias, residual, out, begin, end);
    else if (p->format == LB_F16)
        lb_float_LB_F16(p, x, w, bias, residual, out, begin, end);
    else
        lb_float_LB_BF16(p, x, w, bias, residual, out, begin, end);
}

#endif
