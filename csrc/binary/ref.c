#include "base/numerics.h"
#include "binary/b1_window.h"

#include <string.h>

/* Bits in which two runs of `bytes` bytes, a multiple of 8, differ: pairs, nibbles, bytes of 32 bits, then the sum of the bytes. */
static inline int32_t lb_b1_differ(const uint8_t *a, const uint8_t *b, int32_t bytes) {
    int32_t sum = 0;
    for (int32_t i = 0; i < bytes; i += 4) {
        uint32_t u, v;
        memcpy(&u, a + i, 4);
        memcpy(&v, b + i, 4);
        v ^= u;
        v -= v >> 1 & 0x55555555u;
        v = (v & 0x33333333u) + (v >> 2 & 0x33333333u);
        v = (v + (v >> 4)) & 0x0F0F0F0Fu;
        v += v >> 8;
        v += v >> 16;
        sum += (int32_t)(v & 63);
    }
    return sum;
}

/* An accumulator of conv_b1_s8. */
static inline int32_t lb_b1_acc(const lb_conv_b1_s8_params *p, const lb_b1_window *at, const uint8_t *w, int32_t bias, int32_t channel) {
    const int32_t bytes = lb_b1_words(p->in_c) * 8;
    w += (ptrdiff_t)channel * p->kernel_h * p->kernel_w * bytes;
    int32_t differ = 0;
    for (int32_t i = at->rows.first; i < at->rows.last; i++)
        for (int32_t j = at->columns.first; j < at->columns.last; j++)
            differ += lb_b1_differ(lb_b1_tap(p, at, i, j), w + ((ptrdiff_t)i * p->kernel_w + j) * bytes, bytes);
    return bias + lb_b1_products(p, at) - 2 * differ;
}

/* out = `of`, an expression of the accumulator `acc` of channel c, for every result of the items. */
#define LB_B1_EACH(of)                                                                                                                     \
    for (int32_t i = lb_b1_pixel(p, begin); i < lb_b1_pixel(p, end); i++) {                                                                \
        const lb_b1_window at = lb_b1_window_of(p, x, i);                                                                                  \
        for (int32_t c = 0; c < p->out_c; c++) {                                                                                           \
            const int32_t acc = lb_b1_acc(p, &at, w, bias[c], c);                                                                          \
            out[(ptrdiff_t)i * p->out_stride + c] = of;                                                                                    \
        }                                                                                                                                  \
    }

lb_sign_f32_s8_fn lb_sign_f32_s8__ref;

void lb_sign_f32_s8__ref(const lb_sign_f32_s8_params *p, const lb_f32 *x, int8_t *out, int32_t begin, int32_t end) {
    (void)p;
    for (int32_t i = begin; i < end; i++) /* below -0, and not NaN */
        out[i] = lb_f32_bits(x[i]) > 0x80000000u && lb_f32_bits(x[i]) <= 0xff800000u ? -1 : 1;
}

lb_pack_s8_b1_fn lb_pack_s8_b1__ref;

void lb_pack_s8_b1__ref(const lb_pack_s8_b1_params *p, const int8_t *x, uint8_t *out, int32_t begin, int32_t end) {
    const int32_t bytes = lb_b1_words(p->k) * 8;
    for (int32_t i = begin; i < end; i++) {
        uint8_t *bits = out + (ptrdiff_t)i * bytes;
        memset(bits, 0, (size_t)bytes);
        for (int32_t j = 0; j < p->k; j++)
            if (x[(ptrdiff_t)i * p->k + j] > 0)
                bits[j / 8] = (uint8_t)(bits[j / 8] | 1 << j % 8);
    }
}

lb_conv_b1_s8_fn lb_conv_b1_s8__ref;

void lb_conv_b1_s8__ref(const lb_conv_b1_s8_params *p, const uint8_t *x, const void *w, const int32_t *bias, const lb_f32 *multiplier,
                        int8_t *out, int32_t begin,
                        int32_t end){LB_B1_EACH((int8_t)lb_requantize(acc, multiplier[c], p -> y_zero, p->lo, p->hi))}

lb_conv_b1_f32_fn lb_conv_b1_f32__ref;

void lb_conv_b1_f32__ref(const lb_conv_b1_f32_params *p, const uint8_t *x, const void *w, const int32_t *bias, const lb_f32 *multiplier,
                         lb_f32 *out, int32_t begin, int32_t end) {
    LB_B1_EACH(lb_f32_mul(lb_f32_from_s32(acc), multiplier[c]))
}
