#include "lb.h"
#include "blocks/block_panel.h"

/* Puts the codes of output j into a block's planes, which were zeros. */
static inline void put_codes(int bits, const uint8_t *code, uint8_t *to, int j) {
    for (int i = 0; i < 32; i++) {
        const int quad = i / 4, at = 4 * j + i % 4;
        uint8_t *plane = to;
        int c = code[i];
        if (bits == 8) {
            plane[64 * quad + at] = (uint8_t)c;
            continue;
        }
        if (bits >= 4) {
            plane[64 * (quad % 4) + at] |= (uint8_t)((c & 15) << (quad < 4 ? 0 : 4));
            plane += 256, c >>= 4;
        }
        if (bits == 2 || bits == 3 || bits == 6) {
            plane[64 * (quad / 4) + at] |= (uint8_t)((c & 3) << 2 * (quad % 4));
            plane += 128, c >>= 2;
        }
        if (bits == 5 || bits == 3)
            plane[at] |= (uint8_t)((c & 1) << quad);
    }
}

static inline void put_u16(uint8_t *to, int j, uint16_t v) {
    to[2 * j] = (uint8_t)v, to[2 * j + 1] = (uint8_t)(v >> 8);
}

/* Value v of the 6-bit scales of output j (block_panel.h); all were zeros. */
static inline void put_scale(uint8_t *words, int v, int j, uint32_t value) {
    uint32_t word[3];
    for (int i = 0; i < 3; i++)
        memcpy(&word[i], words + 64 * i + 4 * j, 4);
    if (v < 15)
        word[v / 5] |= value << 6 * (v % 5);
    else
        for (int i = 0; i < 3; i++)
            word[i] |= (value >> 2 * i & 3) << 30;
    for (int i = 0; i < 3; i++)
        memcpy(words + 64 * i + 4 * j, &word[i], 4);
}

/* Scales of block b of 32 of output j into the header. */
static inline void put_scales(int32_t format, const lb_block_parts *s, uint8_t *header, int b, int j) {
    const lb_block_format f = lb_block_format_of(format);
    uint8_t *to = header + lb_header_bytes(format) * (f.block == 256 ? b / 8 : b);
    b %= 8;
    if (f.factors) {
        for (int i = 0; i < 2; i++)
            to[16 * (2 * b + i) + j] = (uint8_t)(f.offset_factors ? s->factor[i] | s->offset_factor[i] << 4 : s->factor[i]);
        to += 256;
    }
    put_u16(to, j, s->d);
    if (f.offset)
        put_u16(to + 32, j, s->m);
    if (format == LB_Q4_K || format == LB_Q5_K) {
        put_scale(to + 64, b, j, s->scale);
        put_scale(to + 64, 8 + b, j, s->offset_scale);
    }
}

lb_block_pack_fn lb_block_pack__ref;

void lb_block_pack__ref(const lb_block_pack_params *p, const uint8_t *w, uint8_t *packed, int32_t begin, int32_t end) {
    const lb_block_format f = lb_block_format_of(p->format);
    const ptrdiff_t row_bytes = (ptrdiff_t)f.bytes * (p->k / f.block), bytes = lb_panel_bytes(p->format, p->k);
    for (int32_t panel = begin; panel < end; panel++) {
        uint8_t *to = packed + bytes * panel, *codes = f.bits ? to + lb_panel_codes(p->format, p->k) : to;
        memset(to, 0, (size_t)bytes);
        for (int j = 0; j < LB_BLOCK_PANEL && LB_BLOCK_PANEL * panel + j < p->n; j++) {
            const uint8_t *row = w + row_bytes * (LB_BLOCK_PANEL * panel + j);
            if (!f.bits) {
                for (int32_t i = 0; i < p->k; i++)
                    memcpy(to + (ptrdiff_t)f.bytes * (LB_BLOCK_PANEL * i + j), row + (ptrdiff_t)f.bytes * i, (size_t)f.bytes);
                continue;
            }
            for (int32_t b = 0; b < p->k / 32; b++) {
                lb_block_parts parts;
                lb_parts_of(p->format, row, b, &parts);
                put_scales(p->format, &parts, to, b, j);
                put_codes(f.bits, parts.code, codes + lb_code_bytes(p->format) * b, j);
            }
        }
    }
}

lb_block_gather_fn lb_block_gather__ref;

/* Blocks of floats: `count` elements. */
static void gather_floats(int32_t format, const uint8_t *row, float *out, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        if (format == LB_F32)
            memcpy(&out[i], row + 4 * (ptrdiff_t)i, 4);
        else
            out[i] =
                format == LB_F16 ? lb_f32_of_f16(lb_u16_at(row + 2 * (ptrdiff_t)i)) : lb_f32_of_bf16(lb_u16_at(row + 2 * (ptrdiff_t)i));
    }
}

static void gather_block(int32_t format, const lb_block_parts *s, float *out) {
    const lb_block_format f = lb_block_format_of(format);
    const int six_bits = format == LB_Q4_K || format == LB_Q5_K;
    for (int i = 0; i < 32; i++) {
        const float d = lb_f32_of_f16(s->d) * (float)(f.factors ? s->factor[i / 16] : six_bits ? s->scale : 1);
        const int code = format == LB_IQ4_NL ? lb_iq4_nl[s->code[i]] : s->code[i];
        out[i] = d * (float)(code - f.zero);
        if (six_bits || f.offset_factors)
            out[i] = out[i] - lb_f32_of_f16(s->m) * (float)(six_bits ? s->offset_scale : s->offset_factor[i / 16]);
        else if (f.offset)
            out[i] = out[i] + lb_f32_of_f16(s->m);
    }
}

void lb_block_gather__ref(const lb_block_gather_params *p, const uint8_t *w, const int32_t *ids, float *out, int32_t begin, int32_t end) {
    const lb_block_format f = lb_block_format_of(p->format);
    const ptrdiff_t row_bytes = (ptrdiff_t)f.bytes * (p->k / f.block);
    for (int32_t item = begin; item < end; item++) {
        float *to = out + (ptrdiff_t)item * p->k;
        if (ids[item] < 0 || ids[item] >= p->n) {
            memset(to, 0, sizeof *to * (size_t)p->k);
            continue;
        }
        const uint8_t *row = w + row_bytes * ids[item];
        if (!f.bits) {
            gather_floats(p->format, row, to, p->k);
            continue;
        }
        for (int32_t b = 0; b < p->k / 32; b++) {
            lb_block_parts parts;
            lb_parts_of(p->format, row, b, &parts);
            gather_block(p->format, &parts, to + 32 * (ptrdiff_t)b);
        }
    }
}
