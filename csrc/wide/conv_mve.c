/* conv_s16 by VMLADAVA and VMLALDAVA: eight products of 16 bits into 32 or 64. */
#include "wide/conv_s16_cortex.h"

#ifndef __ARM_FEATURE_MVE
#error "mve kernels need vectors: -mcpu=cortex-m55"
#endif

#include <arm_mve.h>

lb_conv_s16_fn lb_conv_s16__mve;

static void lb_row_s16(const lb_conv_s16_params *p, int16_t *x, int32_t k) {
    (void)p, (void)x, (void)k; /* as it stands */
}

/* One column of weights of 8 bits, then of 16; the rest of k has a predicate. */
static int64_t lb_bytes_s16(int64_t acc, const int16_t *x, const int8_t *w, int32_t k) {
    for (int32_t left = k >> 3; left > 0; left--, x += 8, w += 8)
        acc = vmlaldavaq_s16(acc, vldrhq_s16(x), vldrbq_s16(w));
    if (k & 7) {
        const mve_pred16_t rest = vctp16q((uint32_t)(k & 7));
        acc = vmlaldavaq_s16(acc, vldrhq_z_s16(x, rest), vldrbq_z_s16(w, rest));
    }
    return acc;
}

static int64_t lb_words_s16(int64_t acc, const int16_t *x, const int16_t *w, int32_t k) {
    for (int32_t left = k >> 3; left > 0; left--, x += 8, w += 8)
        acc = vmlaldavaq_s16(acc, vldrhq_s16(x), vldrhq_s16(w));
    if (k & 7) {
        const mve_pred16_t rest = vctp16q((uint32_t)(k & 7));
        acc = vmlaldavaq_s16(acc, vldrhq_z_s16(x, rest), vldrhq_z_s16(w, rest));
    }
    return acc;
}

/* Four columns of 8 bits, sums modulo 2^32. */
static void lb_four_narrow_s16(int64_t *acc, const int16_t *x, const int8_t *w, int32_t k) {
    int32_t s0 = (int32_t)acc[0], s1 = (int32_t)acc[1], s2 = (int32_t)acc[2], s3 = (int32_t)acc[3];
    const int8_t *w1 = w + k, *w2 = w1 + k, *w3 = w2 + k;
    for (int32_t left = k >> 3; left > 0; left--, x += 8, w += 8, w1 += 8, w2 += 8, w3 += 8) {
        const int16x8_t v = vldrhq_s16(x);
        s0 = vmladavaq_s16(s0, v, vldrbq_s16(w)), s1 = vmladavaq_s16(s1, v, vldrbq_s16(w1));
        s2 = vmladavaq_s16(s2, v, vldrbq_s16(w2)), s3 = vmladavaq_s16(s3, v, vldrbq_s16(w3));
    }
    if (k & 7) {
        const mve_pred16_t rest = vctp16q((uint32_t)(k & 7));
        const int16x8_t v = vldrhq_z_s16(x, rest);
        s0 = vmladavaq_s16(s0, v, vldrbq_z_s16(w, rest)), s1 = vmladavaq_s16(s1, v, vldrbq_z_s16(w1, rest));
        s2 = vmladavaq_s16(s2, v, vldrbq_z_s16(w2, rest)), s3 = vmladavaq_s16(s3, v, vldrbq_z_s16(w3, rest));
    }
    acc[0] = s0, acc[1] = s1, acc[2] = s2, acc[3] = s3;
}

void lb_conv_s16__mve(const lb_conv_s16_params *p, const int16_t *x, const void *w, const int64_t *bias, const float *multiplier, void *out,
                      void *scratch, int32_t begin, int32_t end) {
    lb_conv_s16_cortex(p, x, w, bias, multiplier, out, scratch, begin, end);
}
