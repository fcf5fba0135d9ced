/* Bytes as pairs of 16 bits, for SMLAD. */
#ifndef LB_MADD16_ARMDSP_H
#define LB_MADD16_ARMDSP_H

#ifndef __ARM_FEATURE_SIMD32
#error "armdsp kernels need the DSP extension: -mcpu=cortex-m4, -mcpu=cortex-m7, -mcpu=cortex-m33 ..."
#endif

#include "base/unroll.h"

#include <arm_acle.h>
#include <stdint.h>
#include <string.h>

/* Four bytes from anywhere. */
LB_INLINE int32_t lb_four(const int8_t *from) {
    int32_t v;
    memcpy(&v, from, sizeof v);
    return v;
}

/* Bytes 0 and 2, sign-extended, each plus its half of `add`. */
LB_INLINE int32_t lb_even(int32_t add, int32_t bytes) {
    return __sxtab16(add, bytes);
}

/* Bytes 1 and 3. The compiler has no way to say the rotation that the instruction does by itself. */
LB_INLINE int32_t lb_odd(int32_t add, int32_t bytes) {
    int32_t r;
    __asm__("sxtab16 %0, %1, %2, ror #8" : "=r"(r) : "r"(add), "r"(bytes));
    return r;
}

LB_INLINE int32_t lb_even_of(int32_t bytes) {
    return __sxtb16(bytes);
}

LB_INLINE int32_t lb_odd_of(int32_t bytes) {
    int32_t r;
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(r) : "r"(bytes));
    return r;
}

/* -zero in both halves. */
LB_INLINE int32_t lb_minus(int32_t zero) {
    return (int32_t)((uint32_t)-zero << 16 | ((uint32_t)-zero & 0xFFFFu));
}

#endif
