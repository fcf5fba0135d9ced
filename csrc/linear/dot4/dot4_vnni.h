/* Products of quads by vpdpbusd, which adds four products of unsigned with signed bytes to a lane of 32 bits and does not saturate.
 * Activations are flipped, x + 128, so that sums begin at bias - (x_zero + 128) * (sum of the weights), modulo 2^32.
 *
 * Include after a header that defines lb_vec, its LB_LANES, LB_PANEL_VECS vectors of a panel, LB_ROWS of a tile that is two vectors wide,
 * and how many accumulators LB_APART keep apart products that would wait for each other. */
#ifndef LB_DOT4_VNNI_H
#define LB_DOT4_VNNI_H

#include "linear/dot4/dot4.h"
#include "base/requantize_avx2.h"
#include "base/unroll.h"

#define LB_DOT4_FLIP 0x80

enum { LB_COLUMNS = 2 * LB_LANES, LB_CHAINS = 4 };

typedef int32_t __attribute__((may_alias)) lb_quad;

LB_INLINE lb_vec lb_quad_at(const uint8_t *a) {
    return lb_vec_all(*(const lb_quad *)(const void *)a);
}

/* Weights that will be needed soon: where they are, and how many bytes of them to fetch for each quad. */
typedef struct {
    uintptr_t at;
    ptrdiff_t pace;
} lb_dot4_ahead;

/* c[across * i + j] of `rows` rows i and `wide` vectors j += rows of a times weights: `quads` of them. Vectors of weights are `second`
 * bytes apart. Where the accumulators are few, each is `chains` of them: products need not wait for each other. */
LB_INLINE void lb_dot4_dots(const int rows, const int wide, const int across, const uint8_t *a, ptrdiff_t stride, const int8_t *w,
                            ptrdiff_t second, ptrdiff_t quads, const lb_dot4_ahead *fetch, lb_vec *c) {
    const int chains = 4 * rows * wide <= LB_APART ? 4 : 2 * rows * wide <= LB_APART ? 2 : 1;
    lb_vec s[LB_CHAINS][2 * LB_ROWS];
    uintptr_t ahead = fetch ? fetch->at : 0;
    ptrdiff_t q = 0;
    const uint8_t *lower = a + LB_ROWS / 2 * stride; /* a pointer of its own: registers do not suffice for the distances of all rows */
    __asm__("" : "+r"(lower));
    LB_UNROLL_ALL
    for (int h = 0; h < chains; h++)
        LB_UNROLL_ALL
    for (int i = 0; i < rows; i++)
        LB_UNROLL_ALL
    for (int j = 0; j < wide; j++)
        s[h][i * wide + j] = h ? lb_vec_all(0) : c[i * across + j];
    for (; q + chains <= quads; q += chains, a += 4 * chains, lower += 4 * chains, w += 64 * chains) {
        LB_UNROLL_ALL
        for (int h = 0; h < chains; h++) {
            lb_vec v[4];
            LB_UNROLL_ALL
            for (int j = 0; j < wide; j++) {
                v[j] = lb_vec_load(w + 64 * h + j * second);
                lb_keep(v[j]);
            }
            if (fetch) {
                __builtin_prefetch((const void *)ahead, 0, 2);
                ahead += (uintptr_t)fetch->pace;
            }
            LB_UNROLL_ALL
            for (int i = 0; i < rows; i++) {
                const lb_vec x = lb_quad_at((i < LB_ROWS / 2 ? a + i * stride : lower + (i - LB_ROWS / 2) * stride) + 4 * h);
                LB_UNROLL_ALL
                for (int j = 0; j < wide; j++)
                    s[h][i * wide + j] = lb_vec_dot(s[h][i * wide + j], x, v[j]);
            }
        }
    }
    for (; chains > 1 && q < quads; q++, a += 4, w += 64)
        LB_UNROLL_ALL
    for (int i = 0; i < rows; i++)
        LB_UNROLL_ALL
    for (int j = 0; j < wide; j++)
        s[0][i * wide + j] = lb_vec_dot(s[0][i * wide + j], lb_quad_at(a + i * stride), lb_vec_load(w + j * second));
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i++)
        LB_UNROLL_ALL
    for (int j = 0; j < wide; j++) {
        const int at = i * wide + j;
        lb_vec sum = s[0][at];
        if (chains == 4)
            sum = lb_vec_add(lb_vec_add(sum, s[1][at]), lb_vec_add(s[2][at], s[3][at]));
        else if (chains == 2)
            sum = lb_vec_add(sum, s[1][at]);
        c[i * across + j] = sum;
    }
}

/* c (rows x `wide` vectors) += rows of a times weights: `quads` of them. Where the second vector of weights is, is `second` bytes on. */
LB_INLINE void lb_dot4_steps(const int rows, const int wide, const uint8_t *a, ptrdiff_t stride, const int8_t *w, ptrdiff_t second,
                             ptrdiff_t quads, lb_vec c[][2]) {
    lb_dot4_dots(rows, wide, 2, a, stride, w, second, quads, NULL, c[0]);
}

/* Some columns of linear_s8 and conv_s8: what their accumulators begin with, their multipliers, and their weights. */
typedef struct {
    _Alignas(64) int32_t start[4 * LB_LANES];
    _Alignas(64) float m[4 * LB_LANES];
    int bare; /* multipliers are less than 1 and all of int8 is allowed: no product reaches 2^31, and saturation is all of the clamp */
    ptrdiff_t n, width;
    const int8_t *w;
    ptrdiff_t second;
    lb_dot4_ahead ahead;
} lb_dot4_columns;

#endif
