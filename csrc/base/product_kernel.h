/* The signature that kernels of linear layers and convolutions share. */
#ifndef LB_PRODUCT_KERNEL_H
#define LB_PRODUCT_KERNEL_H

#include "base/numerics.h"

#include <stdint.h>

/* Defines the kernel of a contract for an instruction set, whose results are of `type`: it is `call`, an expression of its arguments. */
#define LB_PRODUCT_KERNEL(contract, isa, type, call)                                                                                       \
    void lb_##contract##__##isa(const lb_##contract##_params *p, const int8_t *x, const void *w, const int32_t *bias,                      \
                                const lb_f32 *multiplier, type *out, void *scratch, int32_t begin, int32_t end) {                          \
        (void)scratch;                                                                                                                     \
        call;                                                                                                                              \
    }

#endif
