/* Sixteen outputs of a linear layer as block_linear_s8 and block_linear_f32 read them, from the first byte to the last.
 *
 * Integer formats: a header, padded to 64 bytes, then the codes of each block of 32.
 *
 *   header   Q4_0, Q5_0, Q8_0, IQ4_NL   for each 32: d[16]                                                 32 bytes
 *            Q4_1, Q5_1                 for each 32: d[16], m[16]                                          64
 *            Q4_K, Q5_K                 for each 256: d[16], m[16], three words of 32 bits for each of 16  256
 *            Q6_K, Q3_K                 for each 256: factor[16 runs][16] as int8, d[16]                   288
 *            Q2_K                       for each 256: factor | offset factor << 4 [16][16], d[16], m[16]   320
 *   codes    planes of bytes (16 outputs, 4 neighbours along k); quad i is neighbours 4 i ... 4 i + 3 of 32
 *            8 bits          8 planes, one for each quad
 *            4, 5, 6 bits    4 planes: the low four bits of quad i, and above them those of quad i + 4
 *            6, 3, 2 bits    2 planes: two bits (6: the upper ones) of quad i at bit 2 i, then of quads 4 ... 7
 *            5, 3 bits       1 plane: the highest bit of quad i at bit i
 *
 * The 6-bit scales of _K: value v of 16 (scale 0 ... 7, then offset scale 0 ... 7) is 6 bits at 6 * (v % 5) of word v / 5 for v < 15; the
 * last one has two bits at the top of each word, the lowest in word 0.
 *
 * Floats: [k][16] as in the file (two or four bytes), padded to 64. */
#ifndef LB_BLOCK_PANEL_H
#define LB_BLOCK_PANEL_H

#include "blocks/block_formats.h"

#include <stddef.h>

enum { LB_BLOCK_PANEL = 16 };

/* Bytes of the header for a block of the file's (32 or 256). */
static inline ptrdiff_t lb_header_bytes(int32_t format) {
    switch (format) {
    case LB_Q4_1:
    case LB_Q5_1:
        return 64;
    case LB_Q4_K:
    case LB_Q5_K:
        return 256;
    case LB_Q6_K:
    case LB_Q3_K:
        return 288;
    case LB_Q2_K:
        return 320;
    default:
        return 32;
    }
}

/* Bytes of the codes of a block of 32. */
static inline ptrdiff_t lb_code_bytes(int32_t format) {
    return 64 * lb_block_format_of(format).bits;
}

static inline ptrdiff_t lb_panel_codes(int32_t format, int32_t k) {
    return (lb_header_bytes(format) * (k / lb_block_format_of(format).block) + 63) / 64 * 64;
}

static inline ptrdiff_t lb_panel_bytes(int32_t format, int32_t k) {
    const lb_block_format f = lb_block_format_of(format);
    if (!f.bits)
        return ((ptrdiff_t)f.bytes * k * LB_BLOCK_PANEL + 63) / 64 * 64;
    return lb_panel_codes(format, k) + lb_code_bytes(format) * (k / 32);
}

/* Value v of the 6-bit scales of output j; `words` are [3][16]. */
static inline int32_t lb_scale_of_words(const uint8_t *words, int v, int j) {
    uint32_t word[3];
    for (int i = 0; i < 3; i++)
        memcpy(&word[i], words + 64 * i + 4 * j, 4);
    if (v < 15)
        return (int32_t)(word[v / 5] >> 6 * (v % 5) & 63);
    return (int32_t)(word[0] >> 30 | word[1] >> 30 << 2 | word[2] >> 30 << 4);
}

/* Code of output j, neighbour i of 32: the planes put together. */
static inline uint8_t lb_code_at(int bits, const uint8_t *codes, int j, int i) {
    const int quad = i / 4, at = 4 * j + i % 4;
    int code = 0, shift = 0;
    if (bits == 8)
        return codes[64 * quad + at];
    if (bits >= 4) {
        code = quad < 4 ? codes[64 * quad + at] & 15 : codes[64 * (quad - 4) + at] >> 4;
        codes += 256, shift = 4;
    }
    if (bits == 2 || bits == 3 || bits == 6) {
        code |= (codes[64 * (quad / 4) + at] >> 2 * (quad % 4) & 3) << shift;
        codes += 128, shift += 2;
    }
    if (bits == 5 || bits == 3)
        code |= (codes[at] >> quad & 1) << shift;
    return (uint8_t)code;
}

/* What floats and integers go with block `b` of 32, of output j. */
typedef struct {
    float d, m;
    int32_t factor[2], offset_factor[2];
} lb_block_scales;

static inline lb_block_scales lb_scales_at(int32_t format, const uint8_t *panel, int b, int j) {
    const lb_block_format f = lb_block_format_of(format);
    const uint8_t *at = panel + lb_header_bytes(format) * (f.block == 256 ? b / 8 : b);
    lb_block_scales s = {0.0f, 0.0f, {1, 1}, {0, 0}};
    b %= 8;
    if (f.factors) {
        for (int i = 0; i < 2; i++) {
            const uint8_t v = at[16 * (2 * b + i) + j];
            s.factor[i] = f.offset_factors ? v & 15 : v < 128 ? v : v - 256;
            s.offset_factor[i] = f.offset_factors ? v >> 4 : 0;
        }
        at += 256;
    }
    s.d = lb_f32_of_f16(lb_u16_at(at + 2 * j));
    if (f.offset)
        s.m = lb_f32_of_f16(lb_u16_at(at + 32 + 2 * j));
    if (format == LB_Q4_K || format == LB_Q5_K) {
        s.d = s.d * (float)lb_scale_of_words(at + 64, b, j);
        s.m = -(s.m * (float)lb_scale_of_words(at + 64, 8 + b, j));
    } else if (f.offset_factors)
        s.m = -s.m;
    return s;
}

#endif
