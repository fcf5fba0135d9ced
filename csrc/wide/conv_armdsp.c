/* conv_s16 by SMLAD and SMLALD: two products of 16 bits into 32 or 64. */
#include "wide/conv_s16_cortex.h"
#include "base/dot_armdsp.h"

lb_conv_s16_fn lb_conv_s16__armdsp;

static int32_t two(const int16_t *from) {
    int32_t v;
    memcpy(&v, from, sizeof v);
    return v;
}

/* Bytes widen to pairs of every other one: four elements stand as 0, 2, 1, 3. */
static void lb_row_s16(const lb_conv_s16_params *p, int16_t *x, int32_t k) {
    if (p->weight_bytes == 1)
        for (int32_t i = 0; i + 4 <= k; i += 4) {
            const int16_t second = x[i + 1];
            x[i + 1] = x[i + 2], x[i + 2] = second;
        }
}

/* One column of weights of 8 bits, then of 16. */
static int64_t lb_bytes_s16(int64_t acc, const int16_t *x, const int8_t *w, int32_t k) {
    for (int32_t i = 0; i + 4 <= k; i += 4) {
        const int32_t b = lb_four(w + i);
        acc = __smlald(two(x + i), lb_even_of(b), acc), acc = __smlald(two(x + i + 2), lb_odd_of(b), acc);
    }
    for (int32_t i = k & ~3; i < k; i++)
        acc += x[i] * w[i];
    return acc;
}

static int64_t lb_words_s16(int64_t acc, const int16_t *x, const int16_t *w, int32_t k) {
    for (int32_t i = 0; i + 2 <= k; i += 2)
        acc = __smlald(two(x + i), two(w + i), acc);
    if (k & 1)
        acc += x[k - 1] * w[k - 1];
    return acc;
}

/* Four columns of 8 bits, sums modulo 2^32. */
static void lb_four_narrow_s16(int64_t *acc, const int16_t *x, const int8_t *w, int32_t k) {
    const int16_t *const end = x + (k & ~3);
    const int8_t *last = w + 3 * (ptrdiff_t)k;
    int32_t s0 = (int32_t)acc[0], s1 = (int32_t)acc[1], s2 = (int32_t)acc[2], s3 = (int32_t)acc[3];
    while (x < end) {
        const int32_t even = two(x), odd = two(x + 2);
        int32_t b = lb_four(last);
        s3 = __smlad(even, lb_even_of(b), s3), s3 = __smlad(odd, lb_odd_of(b), s3), b = lb_four(w + 2 * (ptrdiff_t)k);
        s2 = __smlad(even, lb_even_of(b), s2), s2 = __smlad(odd, lb_odd_of(b), s2), b = lb_four(w + k);
        s1 = __smlad(even, lb_even_of(b), s1), s1 = __smlad(odd, lb_odd_of(b), s1), b = lb_four(w);
        s0 = __smlad(even, lb_even_of(b), s0), s0 = __smlad(odd, lb_odd_of(b), s0);
        x += 4, w += 4, last += 4;
    }
    for (int32_t i = 0; i < (k & 3); i++)
        s0 = lb_more(s0, x[i], 0, w[i]), s1 = lb_more(s1, x[i], 0, w[k + i]), s2 = lb_more(s2, x[i], 0, w[2 * k + i]),
        s3 = lb_more(s3, x[i], 0, last[i]);
    acc[0] = s0, acc[1] = s1, acc[2] = s2, acc[3] = s3;
}

void lb_conv_s16__armdsp(const lb_conv_s16_params *p, const int16_t *x, const void *w, const int64_t *bias, const lb_f32 *multiplier,
                         void *out, void *scratch, int32_t begin, int32_t end) {
    lb_conv_s16_cortex(p, x, w, bias, multiplier, out, scratch, begin, end);
}
