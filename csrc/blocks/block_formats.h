/* GGUF's block formats: how 32 or 256 neighbours of a row stand in a file. */
#ifndef LB_BLOCK_FORMATS_H
#define LB_BLOCK_FORMATS_H

#include "base/half.h"

#include <stdint.h>
#include <string.h>

enum {
    LB_F32 = 0,
    LB_F16 = 1,
    LB_Q4_0 = 2,
    LB_Q4_1 = 3,
    LB_Q5_0 = 6,
    LB_Q5_1 = 7,
    LB_Q8_0 = 8,
    LB_Q2_K = 10,
    LB_Q3_K = 11,
    LB_Q4_K = 12,
    LB_Q5_K = 13,
    LB_Q6_K = 14,
    LB_IQ4_NL = 20,
    LB_BF16 = 30
};

/* What a format is. `bits` of a code, the code `zero` that stands for 0, block elements and bytes; whether blocks of 32 have an offset,
 * runs of 16 a factor, and offsets factors of their own. */
typedef struct {
    int bits, zero, block, bytes;
    int offset, factors, offset_factors;
} lb_block_format;

/* F(name) for each format of integers. */
#define LB_BLOCK_FORMATS(F) F(Q4_0) F(Q4_1) F(Q5_0) F(Q5_1) F(Q8_0) F(Q2_K) F(Q3_K) F(Q4_K) F(Q5_K) F(Q6_K) F(IQ4_NL)

static inline lb_block_format lb_block_format_of(int32_t format) {
    switch (format) {
    case LB_Q4_0:
        return (lb_block_format){4, 8, 32, 18, 0, 0, 0};
    case LB_Q4_1:
        return (lb_block_format){4, 0, 32, 20, 1, 0, 0};
    case LB_Q5_0:
        return (lb_block_format){5, 16, 32, 22, 0, 0, 0};
    case LB_Q5_1:
        return (lb_block_format){5, 0, 32, 24, 1, 0, 0};
    case LB_Q8_0:
        return (lb_block_format){8, 128, 32, 34, 0, 0, 0};
    case LB_Q2_K:
        return (lb_block_format){2, 0, 256, 84, 1, 1, 1};
    case LB_Q3_K:
        return (lb_block_format){3, 4, 256, 110, 0, 1, 0};
    case LB_Q4_K:
        return (lb_block_format){4, 0, 256, 144, 1, 0, 0};
    case LB_Q5_K:
        return (lb_block_format){5, 0, 256, 176, 1, 0, 0};
    case LB_Q6_K:
        return (lb_block_format){6, 32, 256, 210, 0, 1, 0};
    case LB_IQ4_NL:
        return (lb_block_format){4, 128, 32, 18, 0, 0, 0}; /* zero: of the bytes that nibbles stand for */
    default:
        return (lb_block_format){0, 0, 1, format == LB_F32 ? 4 : 2, 0, 0, 0};
    }
}

/* What the nibbles of IQ4_NL stand for, plus 128. */
static const uint8_t lb_iq4_nl[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};

/* 32 neighbours, taken apart. `d` and `m` are halves; scale and offset_scale (6 bits) belong to _K with offsets, factor and offset_factor
 * to runs of 16. */
typedef struct {
    uint8_t code[32]; /* IQ4_NL: nibbles */
    uint16_t d, m;
    uint8_t scale, offset_scale;
    int8_t factor[2];
    uint8_t offset_factor[2];
} lb_block_parts;

static inline uint16_t lb_u16_at(const uint8_t *from) {
    return (uint16_t)(from[0] | from[1] << 8);
}

/* Scale and offset scale number `i` of 8, of 6 bits each in 12 bytes. */
static inline void lb_scales_k(const uint8_t *s, int i, uint8_t *scale, uint8_t *offset) {
    if (i < 4) {
        *scale = s[i] & 63, *offset = s[i + 4] & 63;
        return;
    }
    *scale = (uint8_t)((s[i + 4] & 15) | s[i - 4] >> 6 << 4);
    *offset = (uint8_t)(s[i + 4] >> 4 | s[i] >> 6 << 4);
}

/* Of a block of 256, run `b` of 32. */
static inline void lb_parts_k(int32_t format, const uint8_t *from, int b, lb_block_parts *out) {
    const int half = b / 4, part = b % 4; /* 128 neighbours, and which quarter of them */
    if (format == LB_Q4_K || format == LB_Q5_K) {
        const uint8_t *low = from + (format == LB_Q4_K ? 16 : 48) + 32 * (b / 2), *high = from + 16;
        for (int i = 0; i < 32; i++) {
            out->code[i] = b % 2 ? low[i] >> 4 : low[i] & 15;
            if (format == LB_Q5_K)
                out->code[i] = (uint8_t)(out->code[i] | (high[i] >> b & 1) << 4);
        }
        out->d = lb_u16_at(from), out->m = lb_u16_at(from + 2);
        lb_scales_k(from + 4, b, &out->scale, &out->offset_scale);
    } else if (format == LB_Q6_K) {
        const uint8_t *low = from + 64 * half + 32 * (part % 2), *high = from + 128 + 32 * half;
        for (int i = 0; i < 32; i++)
            out->code[i] = (uint8_t)((part < 2 ? low[i] & 15 : low[i] >> 4) | (high[i] >> 2 * part & 3) << 4);
        memcpy(out->factor, from + 192 + 2 * b, 2);
        out->d = lb_u16_at(from + 208);
    } else if (format == LB_Q3_K) {
        const uint8_t *low = from + 32 + 32 * half, *s = from + 96;
        for (int i = 0; i < 32; i++)
            out->code[i] = (uint8_t)((low[i] >> 2 * part & 3) | (from[i] >> b & 1) << 2);
        for (int j = 0; j < 2; j++) {
            const int at = 2 * b + j, four = at < 8 ? s[at] & 15 : s[at - 8] >> 4;
            out->factor[j] = (int8_t)((four | (s[8 + at % 4] >> 2 * (at / 4) & 3) << 4) - 32);
        }
        out->d = lb_u16_at(from + 108);
    } else { /* Q2_K */
        const uint8_t *low = from + 16 + 32 * half;
        for (int i = 0; i < 32; i++)
            out->code[i] = low[i] >> 2 * part & 3;
        for (int j = 0; j < 2; j++)
            out->factor[j] = (int8_t)(from[2 * b + j] & 15), out->offset_factor[j] = from[2 * b + j] >> 4;
        out->d = lb_u16_at(from + 80), out->m = lb_u16_at(from + 82);
    }
}

/* Run `b` of 32 of a row of an integer format. */
static inline void lb_parts_of(int32_t format, const uint8_t *row, int b, lb_block_parts *out) {
    const lb_block_format f = lb_block_format_of(format);
    const uint8_t *from = row + (intptr_t)f.bytes * (f.block == 256 ? b / 8 : b);
    memset(out, 0, sizeof *out);
    if (f.block == 256) {
        lb_parts_k(format, from, b % 8, out);
        return;
    }
    out->d = lb_u16_at(from);
    from += 2;
    if (f.offset) {
        out->m = lb_u16_at(from);
        from += 2;
    }
    if (format == LB_Q8_0) {
        for (int i = 0; i < 32; i++)
            out->code[i] = from[i] ^ 0x80;
        return;
    }
    uint32_t high = 0;
    if (f.bits == 5) {
        high = (uint32_t)lb_u16_at(from) | (uint32_t)lb_u16_at(from + 2) << 16;
        from += 4;
    }
    for (int i = 0; i < 32; i++)
        out->code[i] = (uint8_t)((i < 16 ? from[i] & 15 : from[i - 16] >> 4) | (high >> i & 1) << 4);
}

#endif
