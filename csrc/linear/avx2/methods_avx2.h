/* The methods by which AVX2 multiplies rows of int8 with packed weights. */
#ifndef LB_METHODS_AVX2_H
#define LB_METHODS_AVX2_H

#include "linear/avx2/method_gemv_avx2.h"
#include "linear/avx2/method_madd16_avx2.h"
#include "linear/avx2/method_maddubs_s8_avx2.h"
#include "linear/avx2/method_maddubs_u8_avx2.h"
#include "linear/avx2/method_maddubs_w_avx2.h"
#include "linear/avx2/method_plain_avx2.h"

/* The one that linear_s8_pack chose. */
static inline const lb_method *lb_method_of(const void *packed) {
    static const lb_method *const methods[] = {[LB_MADD16] = &lb_madd16_method,         [LB_MADDUBS_W] = &lb_maddubs_w_method,
                                               [LB_PLAIN] = &lb_plain_method,           [LB_MADDUBS_U8] = &lb_maddubs_u8_method,
                                               [LB_MADDUBS_S8] = &lb_maddubs_s8_method, [LB_GEMV] = &lb_gemv_method,
                                               [LB_GEMV_U8] = &lb_gemv_u8_method};
    return methods[((const lb_weights_head *)packed)->method];
}

#endif
