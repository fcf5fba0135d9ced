/* Winograd's F(4x4, 3x3) in integers, as in conv3x3_s8__avx2.c; here vpdpwssd multiplies and adds pairs of channels.
 *
 *   576 y = A' [ (G w G') . (B' d B) ] A      B' d B: |v| <= 100 * 255; G w G': |u| <= 49 * 128: both fit int16
 *
 * Weights stay int8 in memory and are transformed for each block of tiles: that takes as long as the products of about three tiles, while
 * transformed ones are eight times as many bytes, which would come from the third-level cache or from memory. */
#include "lb.h"
#include "base/requantize_avx512.h"
#include "base/numerics.h"
#include "base/vnni.h"
#include "conv/winograd/winograd_avx512.h"
#include "conv/winograd/winograd_tiles.h"

#include <string.h>

lb_conv3x3_s8_fn lb_conv3x3_s8__avx512vnni;

enum { LANES = 16, ROWS = 14, TAPS = 9, CHANNELS = 128 };

LB_INLINE __m512i load512(const void *from) {
    return _mm512_load_si512(from);
}

#define OP(name) _mm512_##name
TRANSFORM_INPUT2(__m512i, OP)

/* A' of four vectors of int32, `step` apart, for two outputs, times 2. */
LB_INLINE void transform_output2(const __m512i *m, ptrdiff_t step, __m512i *o, int to) {
    const __m512i m0 = m[0], m1 = m[step], m2 = m[2 * step], m3 = m[3 * step];
    o[0] = _mm512_add_epi32(_mm512_add_epi32(m0, m0), _mm512_add_epi32(m1, m2));
    o[to] = _mm512_sub_epi32(_mm512_sub_epi32(m1, m2), _mm512_add_epi32(m3, m3));
}

/* ---- weights: of row i of the points, of 16 * wide outputs and `pairs` of channels, to u: (pairs, 6 points, wide) vectors ---- */

LB_INLINE __m512i load_weights(const int8_t *w, int row, int column) {
    return _mm512_cvtepi8_epi16(_mm256_load_si256((const __m256i *)(const void *)(w + 32 * (3 * row + column))));
}

/* Row i of G times a column of 3x3. */
LB_INLINE __m512i row_of_weights(const int high, const int i, const int8_t *w, int column) {
    if (i == 0)
        return load_weights(w, 0, column);
    const __m512i w2 = load_weights(w, 2, column);
    if (i == high + 1)
        return high == 4 ? _mm512_slli_epi16(w2, 2) : w2;
    const __m512i w0 = load_weights(w, 0, column), w1 = load_weights(w, 1, column);
    const __m512i even = _mm512_add_epi16(w0, i > 2 ? _mm512_slli_epi16(w2, 2) : w2), odd = i > 2 ? _mm512_add_epi16(w1, w1) : w1;
    return i % 2 ? _mm512_add_epi16(even, odd) : _mm512_sub_epi16(even, odd);
}

/* Asks for the weights at `next` meanwhile, one part for each row of points; a number, since no pointer may lead past their end. */
LB_INLINE void transform_weights(const int high, const int i, const int8_t *w, const int8_t *next, ptrdiff_t pairs, int16_t *u,
                                 ptrdiff_t step) {
    uintptr_t soon = (uintptr_t)next + (uintptr_t)(64 * i * pairs);
    for (ptrdiff_t k = 0; k < pairs; k++, w += 32 * TAPS, u += 6 * step, soon += 64) {
        _mm_prefetch((const char *)soon, _MM_HINT_T1);
        __m512i o[6];
        lb_winograd_weights(row_of_weights(high, i, w, 0), row_of_weights(high, i, w, 1), row_of_weights(high, i, w, 2), o, 1);
        LB_UNROLL
        for (int j = 0; j < 6; j++)
            _mm512_store_si512(u + j * step, o[j]);
    }
}

/* ---- products ---- */

/* out (rows x `wide` vectors, rows `apart`) = `rows` tiles at one point, `far` elements apart, times the weights of that point; `more`:
 * added to what out holds. */
LB_INLINE void multiply(const int rows, const int wide, const int16_t *v, ptrdiff_t far, ptrdiff_t chunk, int32_t chunks, const int16_t *u,
                        int more, __m512i *out, ptrdiff_t apart) {
    __m512i c[ROWS][2];
    if (more) {
        LB_UNROLL_ALL
        for (int i = 0; i < rows; i++) {
            c[i][0] = out[i * apart];
            if (wide == 2)
                c[i][1] = out[i * apart + 1];
        }
    } else {
        LB_UNROLL_ALL
        for (int i = 0; i < rows; i++)
            c[i][0] = c[i][1] = _mm512_setzero_si512();
    }
    for (int32_t n = 0; n < chunks; n++, v += chunk - 32)
        for (const int16_t *end = v + 32; v < end; v += 2, u += 6 * 32 * wide) {
            const __m512i w0 = load512(u), w1 = wide == 2 ? load512(u + 32) : w0;
            LB_UNROLL_ALL
            for (int i = 0; i < rows; i++) {
                int32_t pair;
                memcpy(&pair, v + i * far, 4);
                const __m512i a = _mm512_set1_epi32(pair);
                c[i][0] = lb_dpwssd512(c[i][0], a, w0);
                if (wide == 2)
                    c[i][1] = lb_dpwssd512(c[i][1], a, w1);
            }
        }
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i++) {
        out[i * apart] = c[i][0];
        if (wide == 2)
            out[i * apart + 1] = c[i][1];
    }
}

typedef void multiply_fn(const int16_t *v, ptrdiff_t far, ptrdiff_t chunk, int32_t chunks, const int16_t *u, int more, __m512i *out,
                         ptrdiff_t apart);

#define MULTIPLY(rows)                                                                                                                     \
    static void multiply##rows##x1(const int16_t *v, ptrdiff_t far, ptrdiff_t chunk, int32_t chunks, const int16_t *u, int more,           \
                                   __m512i *out, ptrdiff_t apart) {                                                                        \
        multiply(rows, 1, v, far, chunk, chunks, u, more, out, apart);                                                                     \
    }                                                                                                                                      \
    static void multiply##rows##x2(const int16_t *v, ptrdiff_t far, ptrdiff_t chunk, int32_t chunks, const int16_t *u, int more,           \
                                   __m512i *out, ptrdiff_t apart) {                                                                        \
        multiply(rows, 2, v, far, chunk, chunks, u, more, out, apart);                                                                     \
    }
MULTIPLY(1)
MULTIPLY(2)
MULTIPLY(3)
MULTIPLY(4)
MULTIPLY(5)
MULTIPLY(6)
MULTIPLY(7)
MULTIPLY(8)
MULTIPLY(9)
MULTIPLY(10)
MULTIPLY(11)
MULTIPLY(12)
MULTIPLY(13)
MULTIPLY(14)

static multiply_fn *const multiplied[ROWS + 1][2] = {
    {NULL, NULL},
    {multiply1x1, multiply1x2},
    {multiply2x1, multiply2x2},
    {multiply3x1, multiply3x2},
    {multiply4x1, multiply4x2},
    {multiply5x1, multiply5x2},
    {multiply6x1, multiply6x2},
    {multiply7x1, multiply7x2},
    {multiply8x1, multiply8x2},
    {multiply9x1, multiply9x2},
    {multiply10x1, multiply10x2},
    {multiply11x1, multiply11x2},
    {multiply12x1, multiply12x2},
    {multiply13x1, multiply13x2},
    {multiply14x1, multiply14x2},
};

/* ---- inputs ---- */

/* What is loaded of a pixel: 32 channels of one `line`s and columns apart, of one that `pixels` tells, or some of those. */
typedef enum { WHOLE, EDGE, PART } kind;

/* 32 channels from c on of the transformed inputs of one tile: point q at v + q * step. */
LB_INLINE void transform_channels(const int high, const kind kind, const lb_conv3x3_s8_params *p, const int8_t *from, const pixels *seen,
                                  int32_t c, int16_t *v) {
    const ptrdiff_t line = (ptrdiff_t)p->in_w * p->in_c;
    const __mmask32 some = (__mmask32)(((uint64_t)1 << (p->in_c - c < 32 ? p->in_c - c : 32)) - 1);
    __m512i rows[MOST_POINTS], d[6], o[6];
    for (int j = 0; j < 6; j++) {
        LB_UNROLL
        for (int i = 0; i < high + 2; i++) {
            const int8_t *at =
                kind == WHOLE ? from + i * line + (ptrdiff_t)j * p->in_c + c : seen->at[6 * i + j] + (c & seen->mask[6 * i + j]);
            const __m256i bytes = kind == PART ? _mm256_mask_loadu_epi8(_mm256_set1_epi8((char)p->x_zero), some, at)
                                               : _mm256_loadu_si256((const __m256i *)(const void *)at);
            d[i] = _mm512_cvtepi8_epi16(bytes);
        }
        if (high == 4)
            lb_winograd_input(d, rows + j, 6);
        else
            transform_input2(d, rows + j, 6);
    }
    LB_UNROLL
    for (int i = 0; i < high + 2; i++) {
        lb_winograd_input(rows + 6 * i, o, 1);
        if (i == 1) /* the only sums that a zero point is part of */
            o[1] = _mm512_sub_epi16(o[1], _mm512_set1_epi16((int16_t)((high == 4 ? 36 : 12) * p->x_zero)));
        LB_UNROLL
        for (int j = 0; j < 6; j++)
            _mm512_store_si512(v + 6 * (high + 2) * c + (6 * i + j) * 32, o[j]);
    }
}

LB_INLINE void load_tile(const int high, const lb_conv3x3_s8_params *p, const int8_t *x, tile t, int16_t *v) {
    const int32_t top = t.row - p->pad_h, left = t.column - p->pad_w, full = p->in_c / 32 * 32;
    const int8_t *image = x + (ptrdiff_t)t.image * p->in_h * p->in_w * p->in_c;
    const int inside = top >= 0 && left >= 0 && top + high + 2 <= p->in_h && left + 6 <= p->in_w;
    pixels seen;
    if (inside) {
        const int8_t *from = image + ((ptrdiff_t)top * p->in_w + left) * p->in_c;
        for (int32_t c = 0; c < full; c += 32)
            transform_channels(high, WHOLE, p, from, NULL, c, v);
    }
    if (inside && full == p->in_c)
        return;
    find(high, p, image, top, left, &seen);
    for (int32_t c = 0; c < full && !inside; c += 32)
        transform_channels(high, EDGE, p, NULL, &seen, c, v);
    if (full < p->in_c)
        transform_channels(high, PART, p, NULL, &seen, full, v);
}

/* ---- outputs ---- */

typedef struct {
    __m512i start[2]; /* bias */
    __m512 multiplier[2];
    lb_clamp64 clamp;
    __mmask64 exist; /* channels */
} epilogue;

/* The outputs of one tile for 16 * wide channels; m has point q at m + q * step. */
LB_INLINE void store_tile(const int high, const int wide, const lb_conv3x3_s8_params *p, const __m512i *m, tile t, const epilogue *e,
                          int8_t *out) {
    const __m512i inverse = _mm512_set1_epi32(high == 4 ? 0x38E38E39 : (int32_t)0xAAAAAAAB); /* of 9, of 3 */
    __m512i columns[2][24];
    for (int half = 0; half < wide; half++)
        LB_UNROLL
    for (int j = 0; j < 6; j++)
        if (high == 4)
            lb_winograd_output(m + wide * j + half, 6 * wide, columns[half] + j, 6);
        else
            transform_output2(m + wide * j + half, 6 * wide, columns[half] + j, 6);
    const int32_t pixels = p->out_w - t.column < 4 ? p->out_w - t.column : 4;
    out += (((ptrdiff_t)t.image * p->out_h + t.row) * p->out_w + t.column) * p->out_stride;
    for (int32_t i = 0; i < high && t.row + i < p->out_h; i++, out += (ptrdiff_t)p->out_w * p->out_stride) {
        __m512i o[4], y[8];
        LB_UNROLL
        for (int half = 0; half < wide; half++) {
            lb_winograd_output(columns[half] + 6 * i, 1, o, 1);
            LB_UNROLL
            for (int j = 0; j < 4; j++)
                y[wide * j + half] =
                    _mm512_add_epi32(_mm512_srai_epi32(_mm512_mullo_epi32(o[j], inverse), high == 4 ? 6 : 4), e->start[half]);
        }
        LB_UNROLL
        for (int j = 0; j < 4; j += 4 / wide)
            if (j < pixels)
                lb_store_pixels(wide, lb_requantize64(wide, y + wide * j, e->multiplier, &e->clamp), out + j * p->out_stride, p->out_stride,
                                pixels - j, e->exist);
    }
}

/* ---- by height of the tiles, and by the number of vectors ---- */

#define OF_HEIGHT(high)                                                                                                                    \
    static void load_tile##high(const lb_conv3x3_s8_params *p, const int8_t *x, tile t, int16_t *v) {                                      \
        load_tile(high, p, x, t, v);                                                                                                       \
    }                                                                                                                                      \
    static void transform_weights##high(int i, const int8_t *w, const int8_t *next, ptrdiff_t pairs, int16_t *u, ptrdiff_t step) {         \
        if (i == 0)                                                                                                                        \
            transform_weights(high, 0, w, next, pairs, u, step);                                                                           \
        else if (i == 1)                                                                                                                   \
            transform_weights(high, 1, w, next, pairs, u, step);                                                                           \
        else if (i == 2)                                                                                                                   \
            transform_weights(high, 2, w, next, pairs, u, step);                                                                           \
        else if (i == high + 1)                                                                                                            \
            transform_weights(high, high + 1, w, next, pairs, u, step);                                                                    \
        else if (i == 3)                                                                                                                   \
            transform_weights(high, 3, w, next, pairs, u, step);                                                                           \
        else                                                                                                                               \
            transform_weights(high, 4, w, next, pairs, u, step);                                                                           \
    }                                                                                                                                      \
    static void store_tile##high##x1(const lb_conv3x3_s8_params *p, const __m512i *m, tile t, const epilogue *e, int8_t *out) {            \
        store_tile(high, 1, p, m, t, e, out);                                                                                              \
    }                                                                                                                                      \
    static void store_tile##high##x2(const lb_conv3x3_s8_params *p, const __m512i *m, tile t, const epilogue *e, int8_t *out) {            \
        store_tile(high, 2, p, m, t, e, out);                                                                                              \
    }
OF_HEIGHT(2)
OF_HEIGHT(4)

static epilogue epilogue_of(const lb_conv3x3_s8_params *p, const int32_t *bias, const float *multiplier, int32_t width) {
    epilogue e = {.clamp = lb_clamp64_of(p->y_zero, p->lo, p->hi), .exist = lb_first64(width)};
    for (int half = 0; LANES * half < width; half++) {
        const __mmask16 some = (__mmask16)(e.exist >> (LANES * half));
        e.start[half] = _mm512_maskz_loadu_epi32(some, bias + LANES * half);
        e.multiplier[half] = _mm512_maskz_loadu_ps(some, multiplier + LANES * half);
    }
    return e;
}

void lb_conv3x3_s8__avx512vnni(const lb_conv3x3_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier,
                               int8_t *out, void *scratch, int32_t begin, int32_t end) {
    const ptrdiff_t depth = ((ptrdiff_t)p->in_c + 31) / 32 * 32;
    const int64_t tiles = (int64_t)p->batch * ((p->out_h + p->tile_h - 1) / p->tile_h) * ((p->out_w + 3) / 4);
    const int four = p->tile_h == 4, points = 6 * (p->tile_h + 2);
    const ptrdiff_t far = points * depth + 32;                          /* of a tile; not of the same sets of the cache */
    const ptrdiff_t most = depth <= CHANNELS ? CHANNELS : CHANNELS / 2; /* more do not stay in the first-level cache */
    int16_t *v = scratch, *u = v + p->block * far;
    __m512i *m = (__m512i *)(void *)(u + 6 * 32 * CHANNELS);
    const int32_t parts = (p->out_c + p->block_columns - 1) / p->block_columns;
    for (int32_t item = begin; item < end; item++) {
        const int32_t left = item % parts * p->block_columns,
                      right = p->out_c - left < p->block_columns ? p->out_c : left + p->block_columns;
        const int64_t first = (int64_t)(item / parts) * p->block;
        const int32_t count = (int32_t)(tiles - first < p->block ? tiles - first : p->block);
        const int32_t groups = (count + ROWS - 1) / ROWS, least = count / groups, larger = count % groups; /* of about equal size */
        if (item == begin || left == 0)
            for (int32_t t = 0; t < count; t++)
                (four ? load_tile4 : load_tile2)(p, x, tile_at(p, first + t), v + t * far);
        for (int32_t n = left; n < right; n += 2 * LANES) {
            const int32_t width = right - n < 2 * LANES ? right - n : 2 * LANES, wide = width > LANES ? 2 : 1;
            const epilogue e = epilogue_of(p, bias + n, multiplier + n, width);
            for (ptrdiff_t c = 0; c < depth; c += most)
                for (int i = 0; i < p->tile_h + 2; i++) {
                    const ptrdiff_t some = depth - c < most ? depth - c : most;
                    for (int half = 0; half < wide; half++) {
                        const int8_t *own = (const int8_t *)w + ((n + LANES * half) * depth + LANES * c) * TAPS;
                        const ptrdiff_t ahead = c + most < depth ? most : n + 2 * LANES < right ? 2 * depth - c : 0; /* in channels */
                        (four ? transform_weights4 : transform_weights2)(i, own, own + ahead * LANES * TAPS, some / 2, u + 32 * half,
                                                                         32 * wide);
                    }
                    for (int32_t g = 0, t = 0, many; g < groups; g++, t += many) {
                        many = least + (g < larger);
                        for (int q = 6 * i; q < 6 * i + 6; q++)
                            multiplied[many][wide - 1](v + t * far + points * c + 32 * q, far, 32 * points, (int32_t)(some / 32),
                                                       u + 32 * wide * (q - 6 * i), c > 0, m + (t * points + q) * wide, points * wide);
                    }
                }
            for (int32_t t = 0; t < count; t++) {
                const tile at = tile_at(p, first + t);
                if (wide == 2)
                    (four ? store_tile4x2 : store_tile2x2)(p, m + t * points * 2, at, &e, out + n);
                else
                    (four ? store_tile4x1 : store_tile2x1)(p, m + t * points, at, &e, out + n);
            }
        }
    }
}
