#include "lb.h"
#include "blocks/block_panel.h"
#include "blocks/block_quantize.h"

enum { AT_ONCE = 8 }; /* rows for which a block of weights is taken apart once */

/* A block of 16 outputs. */
typedef struct {
    uint8_t code[LB_BLOCK_PANEL][LB_BLOCK];
    lb_block_scales s[LB_BLOCK_PANEL];
} block_of_outputs;

static inline void take_apart(int32_t format, const uint8_t *panel, const uint8_t *codes, int b, block_of_outputs *out) {
    const int bits = lb_block_format_of(format).bits;
    for (int j = 0; j < LB_BLOCK_PANEL; j++) {
        out->s[j] = lb_scales_at(format, panel, b, j);
        for (int i = 0; i < LB_BLOCK; i++) {
            const uint8_t c = lb_code_at(bits, codes, j, i);
            out->code[j][i] = format == LB_IQ4_NL ? lb_iq4_nl[c] : c;
        }
    }
}

/* What bias and residual make of a sum, written to its place. */
static inline void put(const lb_block_linear_s8_params *p, float y, const float *bias, const float *residual, float *out, int32_t row,
                       int32_t column) {
    const ptrdiff_t at = (ptrdiff_t)row * p->out_stride + column;
    if (p->has_bias)
        y = y + bias[column];
    if (p->has_residual)
        y = y + residual[at];
    out[at] = y;
}

lb_block_quantize_fn lb_block_quantize__ref;

void lb_block_quantize__ref(const lb_block_quantize_params *p, const float *x, uint8_t *out, int32_t begin, int32_t end) {
    const ptrdiff_t blocks = p->size / LB_BLOCK;
    for (ptrdiff_t i = begin * blocks; i < end * blocks; i++) {
        lb_block_record r;
        lb_quantize_block(x + LB_BLOCK * i, &r);
        memcpy(out + LB_BLOCK_RECORD * i, &r, sizeof r);
    }
}

lb_block_linear_s8_fn lb_block_linear_s8__ref;

void lb_block_linear_s8__ref(const lb_block_linear_s8_params *p, const uint8_t *x, const uint8_t *w, const float *bias,
                             const float *residual, float *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    const lb_block_format f = lb_block_format_of(p->format);
    const int32_t blocks = p->k / LB_BLOCK;
    for (int32_t panel = begin; panel < end; panel++) {
        const uint8_t *header = w + lb_panel_bytes(p->format, p->k) * panel, *codes = header + lb_panel_codes(p->format, p->k);
        for (int32_t first = 0; first < p->rows; first += AT_ONCE) {
            const int32_t rows = p->rows - first < AT_ONCE ? p->rows - first : AT_ONCE;
            float y[AT_ONCE][LB_BLOCK_PANEL] = {{0}}, v[AT_ONCE][LB_BLOCK_PANEL] = {{0}};
            for (int32_t b = 0; b < blocks; b++) {
                block_of_outputs o;
                take_apart(p->format, header, codes + lb_code_bytes(p->format) * b, b, &o);
                for (int32_t i = 0; i < rows; i++) {
                    lb_block_record r;
                    memcpy(&r, x + LB_BLOCK_RECORD * ((ptrdiff_t)(first + i) * blocks + b), sizeof r);
                    for (int j = 0; j < LB_BLOCK_PANEL; j++) {
                        const lb_block_scales *s = &o.s[j];
                        int32_t sum[2] = {0, 0};
                        for (int l = 0; l < LB_BLOCK; l++)
                            sum[l / 16] += r.q[l] * (o.code[j][l] - f.zero);
                        y[i][j] = y[i][j] + (float)(sum[0] * s->factor[0] + sum[1] * s->factor[1]) * (s->d * r.scale);
                        if (f.offset_factors)
                            v[i][j] =
                                v[i][j] + (float)(s->offset_factor[0] * r.half[0] + s->offset_factor[1] * r.half[1]) * (s->m * r.scale);
                        else if (f.offset)
                            v[i][j] = v[i][j] + s->m * r.scaled_sum;
                    }
                }
            }
            for (int32_t i = 0; i < rows; i++)
                for (int j = 0; j < LB_BLOCK_PANEL && LB_BLOCK_PANEL * panel + j < p->n; j++)
                    put(p, f.offset ? y[i][j] + v[i][j] : y[i][j], bias, residual, out, first + i, LB_BLOCK_PANEL * panel + j);
        }
    }
}

lb_block_linear_f32_fn lb_block_linear_f32__ref;

void lb_block_linear_f32__ref(const lb_block_linear_f32_params *p, const float *x, const uint8_t *w, const float *bias,
                              const float *residual, float *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    const int32_t bytes = p->format == LB_F32 ? 4 : 2;
    for (int32_t panel = begin; panel < end; panel++)
        for (int32_t row = 0; row < p->rows; row++) {
            const uint8_t *from = w + lb_panel_bytes(p->format, p->k) * panel;
            float y[LB_BLOCK_PANEL] = {0};
            for (int32_t i = 0; i < p->k; i++, from += bytes * LB_BLOCK_PANEL)
                for (int j = 0; j < LB_BLOCK_PANEL; j++) {
                    float v;
                    if (p->format == LB_F32)
                        memcpy(&v, from + 4 * j, 4);
                    else
                        v = p->format == LB_F16 ? lb_f32_of_f16(lb_u16_at(from + 2 * j)) : lb_f32_of_bf16(lb_u16_at(from + 2 * j));
                    y[j] = y[j] + x[(ptrdiff_t)row * p->k + i] * v;
                }
            for (int j = 0; j < LB_BLOCK_PANEL && LB_BLOCK_PANEL * panel + j < p->n; j++)
                put(p, y[j], bias, residual, out, row, LB_BLOCK_PANEL * panel + j);
        }
}
