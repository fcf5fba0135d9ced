/* attention_s8 in quads: some rows of queries at a time against all keys, then the product of the probabilities, in three limbs of seven
 * bits, with the values. Keys and values of a head are packed once for all rows that a call has of it. Sums of scores begin at
 * -q_zero * (sum of the key), and k_zero * (sum of the query - q_zero) is taken off. A limb is at most 127 and a value at least -128: sums
 * of 8192 keys fit 32 bits. Include after dot4_neon.h or dot4_neondot.h. */
#ifndef LB_ATTENTION_NEON_H
#define LB_ATTENTION_NEON_H

#include "attention/attention_shared.h"

enum { LB_LIMBS = 3, LB_LIMB = 7 };

typedef struct {
    float *u;              /* LB_ROWS rows of scores */
    int32_t *starts;       /* of the sums of each key */
    int8_t *keys, *values; /* panels */
    int8_t *p;             /* LB_ROWS rows of the lowest limbs, of the next, of the highest */
    int8_t *rows;          /* LB_ROWS queries */
    ptrdiff_t wide, depth; /* keys and features, padded */
} lb_attention_buffers;

/* Keys, which are rows in memory, and their initial sums. Missing bytes are 0. */
static inline void lb_pack_keys(const lb_attention_s8_params *p, const int8_t *k, const lb_attention_buffers *s) {
    memset(s->keys, 0, (size_t)(s->wide * s->depth));
    memset(s->starts, 0, 4 * (size_t)s->wide);
    for (ptrdiff_t j = 0; j < p->keys; j++, k += p->k_stride[2]) {
        int8_t *column = s->keys + j / 16 * 16 * s->depth + j % 16 * 4;
        int32_t sum = 0;
        for (ptrdiff_t i = 0; i < p->features; i++) {
            column[i / 4 * 64 + i % 4] = k[i];
            sum += k[i];
        }
        s->starts[j] = -p->q_zero * sum;
    }
}

/* Values as they stand: four rows of 16 columns become quads. */
static inline void lb_pack_values(const lb_attention_s8_params *p, const int8_t *v, int8_t *to) {
    for (ptrdiff_t f = 0; f < p->values; f += 16)
        for (ptrdiff_t j = 0; j < p->keys; j += 4, to += 64) {
            int8_t some[4][16] = {{0}};
            for (ptrdiff_t r = 0; r < 4 && j + r < p->keys; r++)
                memcpy(some[r], v + (j + r) * p->v_stride[2] + f, (size_t)(p->values - f < 16 ? p->values - f : 16));
            vst4q_s8(to, (int8x16x4_t){{vld1q_s8(some[0]), vld1q_s8(some[1]), vld1q_s8(some[2]), vld1q_s8(some[3])}});
        }
}

/* Scores of `rows` queries from `row` on against the first `most` keys, without mask. */
static inline void lb_scores(const lb_attention_s8_params *p, const lb_attention_buffers *s, const int8_t *q, int32_t rows, int32_t most) {
    int32_t less[LB_ROWS] = {0}; /* the correction for the zero point of the keys */
    memset(s->rows, 0, (size_t)(LB_ROWS * s->depth));
    for (int32_t r = 0; r < rows; r++, q += p->q_stride[2]) {
        int32_t sum = 0;
        for (int32_t e = 0; e < p->features; e++)
            sum += q[e] - p->q_zero;
        memcpy(s->rows + r * s->depth, q, (size_t)p->features);
        less[r] = p->k_zero * sum;
    }
    for (ptrdiff_t j = 0; j < most; j += 16) {
        int32x4_t sums[LB_ROWS][4];
        lb_dot4_dots(LB_ROWS, LB_SIGNED_OVERFLOWS, s->rows, s->depth, s->keys + j * s->depth, s->depth / 4, sums);
        for (int32_t r = 0; r < rows; r++)
            for (int i = 0; i < 4; i++) {
                const int32x4_t acc = vsubq_s32(vaddq_s32(sums[r][i], vld1q_s32(s->starts + j + 4 * i)), vdupq_n_s32(less[r]));
                vst1q_f32(s->u + r * s->wide + j + 4 * i, vmulq_n_f32(vcvtq_f32_s32(acc), p->score_scale));
            }
    }
}

/* The probabilities of `keys` scores in limbs, zeros after them to `end`; gives their sum. */
static inline int64_t lb_probabilities(const lb_attention_s8_params *p, const lb_attention_buffers *s, const void *mask, ptrdiff_t at,
                                       int32_t r, int32_t keys, ptrdiff_t end) {
    float *u = s->u + r * s->wide, top = LB_MINUS_INFINITY;
    for (int32_t j = 0; j < keys; j++) {
        u[j] = lb_masked(p, mask, at + (ptrdiff_t)j * p->mask_stride[3], u[j]);
        top = lb_f32_less(top, u[j]) ? u[j] : top;
    }
    int8_t *limbs[LB_LIMBS];
    for (int i = 0; i < LB_LIMBS; i++) {
        limbs[i] = s->p + (i * LB_ROWS + r) * s->wide;
        memset(limbs[i] + keys, 0, (size_t)(end - keys));
    }
    int64_t total = 0;
    for (int32_t j = 0; j < keys; j++) {
        const int32_t share = lb_round_clamp(lb_f32_mul(LB_ONE, lb_exp(lb_f32_sub(u[j], top))), 0, 0, 1 << 20);
        for (int i = 0; i < LB_LIMBS; i++)
            limbs[i][j] = (int8_t)((share >> LB_LIMB * i) & 127);
        total += share;
    }
    return total;
}

/* fl32(a + 2^7 b + 2^14 c - less) of two sums: exact before it is rounded, for doubles hold 53 bits. */
static inline float32x2_t lb_of_limbs(int32x2_t a, int32x2_t b, int32x2_t c, int64x2_t less) {
    const int64x2_t upper = vaddq_s64(vshll_n_s32(b, LB_LIMB), vshll_n_s32(c, 2 * LB_LIMB));
    return vcvt_f32_f64(vcvtq_f64_s64(vsubq_s64(vaddw_s32(upper, a), less)));
}

/* 16 values from f on of `rows` rows. */
static inline void lb_weigh(const lb_attention_s8_params *p, const lb_attention_buffers *s, const lb_attention_block *b, int32_t row,
                            int32_t rows, int32_t most, int32_t f, const int64_t *totals, void *out) {
    int32x4_t sums[LB_LIMBS][LB_ROWS][4];
    const int8_t *panel = s->values + f * lb_dot4_up(p->keys, 4);
    for (int i = 0; i < LB_LIMBS; i++) /* no limb is -128, so that two products fit 16 bits */
        lb_dot4_dots(LB_ROWS, 0, s->p + i * LB_ROWS * s->wide, s->wide, panel, (most + 3) / 4, sums[i]);
    for (int32_t r = 0; r < rows; r++) {
        const ptrdiff_t at = b->out + (ptrdiff_t)(row + r) * p->out_stride[2] + f;
        const int64x2_t less = vdupq_n_s64(totals[r] * p->v_zero);
        const float factor = lb_attention_factor(p, totals[r]);
        float y[16];
        for (int i = 0; i < 4; i++) {
            const int32x4_t c0 = sums[0][r][i], c1 = sums[1][r][i], c2 = sums[2][r][i];
            const float32x2_t low = lb_of_limbs(vget_low_s32(c0), vget_low_s32(c1), vget_low_s32(c2), less);
            const float32x2_t high = lb_of_limbs(vget_high_s32(c0), vget_high_s32(c1), vget_high_s32(c2), less);
            vst1q_f32(y + 4 * i, vmulq_n_f32(vcombine_f32(low, high), factor));
        }
        for (int32_t i = 0; i < 16 && f + i < p->values; i++)
            lb_put(out, p->out_bytes, at + i, y[i], p->y_zero, p->lo, p->hi);
    }
}

static inline void lb_attention_neon(const lb_attention_s8_params *p, const int8_t *q, const int8_t *k, const int8_t *v, const void *mask,
                                     void *out, void *scratch, int32_t begin, int32_t end) {
    lb_attention_buffers s = {.u = scratch, .wide = lb_dot4_up(p->keys, 16), .depth = lb_dot4_up(p->features, 4)};
    s.starts = (int32_t *)(void *)(s.u + LB_ROWS * s.wide);
    s.keys = (int8_t *)(s.starts + s.wide);
    s.values = s.keys + s.wide * s.depth;
    s.p = s.values + s.wide * lb_dot4_up(p->values, 16);
    s.rows = s.p + LB_LIMBS * LB_ROWS * s.wide;
    int32_t head = -1; /* whose keys and values are packed */
    for (int32_t item = begin; item < end; item++) {
        const lb_attention_block b = lb_attention_item(p, item);
        if (b.head != head) {
            lb_pack_keys(p, k + b.k, &s);
            lb_pack_values(p, v + b.v, s.values);
            head = b.head;
        }
        for (int32_t row = b.top; row < b.bottom; row += LB_ROWS) {
            const int32_t rows = b.bottom - row < LB_ROWS ? b.bottom - row : LB_ROWS, most = lb_attention_keys(p, row + rows - 1);
            int64_t totals[LB_ROWS];
            lb_scores(p, &s, q + b.q + (ptrdiff_t)row * p->q_stride[2], rows, most);
            for (int32_t r = 0; r < rows; r++)
                totals[r] = lb_probabilities(p, &s, mask, b.mask + (ptrdiff_t)(row + r) * p->mask_stride[2], r,
                                             lb_attention_keys(p, row + r), lb_dot4_up(most, 4));
            for (int32_t f = 0; f < p->values; f += 16)
                lb_weigh(p, &s, &b, row, rows, most, f, totals, out);
        }
    }
}

#endif
