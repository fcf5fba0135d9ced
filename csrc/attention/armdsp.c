#include "attention/attention_shared.h"
#include "base/madd16_armdsp.h"

lb_attention_s8_fn lb_attention_s8__armdsp;

/* The sum of (q - q_zero) * (k - k_zero), four elements in two SMLAD. */
LB_INLINE int32_t lb_query_key(const lb_attention_s8_params *p, const int8_t *q, const int8_t *k) {
    const int32_t minus_q = lb_minus(p->q_zero), minus_k = lb_minus(p->k_zero);
    const int8_t *const end = q + (p->features & ~3);
    int32_t acc = 0;
    for (; q < end; q += 4, k += 4) {
        const int32_t a = lb_four(q), b = lb_four(k);
        acc = __smlad(lb_even(minus_q, a), lb_even(minus_k, b), acc);
        acc = __smlad(lb_odd(minus_q, a), lb_odd(minus_k, b), acc);
    }
    for (int32_t i = 0; i < (p->features & 3); i++)
        acc += (q[i] - p->q_zero) * (k[i] - p->k_zero);
    return acc;
}

/* Sums of shares times values of one feature, and of four: 32 bits times 8 in 64, one SMLAL each. */
LB_INLINE void lb_values(int64_t *sums, int32_t count, const lb_f32 *shares, int32_t keys, const int8_t *v, ptrdiff_t stride) {
    int64_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (int32_t j = 0; j < keys; j++, v += stride) {
        const int32_t share = (int32_t)lb_f32_bits(shares[j]);
        s0 += (int64_t)share * v[0];
        if (count == 4)
            s1 += (int64_t)share * v[1], s2 += (int64_t)share * v[2], s3 += (int64_t)share * v[3];
    }
    sums[0] = s0;
    if (count == 4)
        sums[1] = s1, sums[2] = s2, sums[3] = s3;
}

/* v_zero goes out after the sums: the shares of a row have one sum. */
void lb_attention_s8__armdsp(const lb_attention_s8_params *p, const int8_t *q, const int8_t *k, const int8_t *v, const void *mask,
                             void *out, void *scratch, int32_t begin, int32_t end) {
    lb_f32 *scores = scratch;
    for (int32_t item = begin; item < end; item++) {
        const lb_attention_block b = lb_attention_item(p, item);
        for (int32_t row = b.top; row < b.bottom; row++) {
            const int32_t keys = lb_attention_keys(p, row);
            const int8_t *query = q + b.q + (ptrdiff_t)row * p->q_stride[2], *key = k + b.k;
            ptrdiff_t at = b.mask + (ptrdiff_t)row * p->mask_stride[2];
            lb_f32 top = LB_MINUS_INFINITY;
            for (int32_t j = 0; j < keys; j++, at += p->mask_stride[3]) {
                const int32_t acc = lb_query_key(p, query, key + (ptrdiff_t)j * p->k_stride[2]);
                scores[j] = lb_masked(p, mask, at, lb_f32_mul(lb_f32_from_s32(acc), p->score_scale));
                top = lb_f32_less(top, scores[j]) ? scores[j] : top;
            }
            const int64_t total = lb_attention_shares(scores, keys, top);
            const lb_f32 factor = lb_attention_factor(p, total);
            const ptrdiff_t to = b.out + (ptrdiff_t)row * p->out_stride[2];
            for (int32_t f = 0; f < p->values;) {
                const int32_t count = f + 4 <= p->values ? 4 : 1;
                int64_t sums[4];
                if (count == 4)
                    lb_values(sums, 4, scores, keys, v + b.v + f, p->v_stride[2]);
                else
                    lb_values(sums, 1, scores, keys, v + b.v + f, p->v_stride[2]);
                for (int32_t i = 0; i < count; i++, f++)
                    lb_put(out, p->out_bytes, to + f, lb_f32_mul(lb_f32_from_s64(sums[i] - total * p->v_zero), factor), p->y_zero, p->lo,
                           p->hi);
            }
        }
    }
}
