/* What the tests of the kernels share. */
#ifndef LB_TEST_SUPPORT_H
#define LB_TEST_SUPPORT_H

#include "lb.h"
#include "lb_table.h"

#include <stddef.h>
#include <stdint.h>

/* xorshift32: the same on every machine. */
uint32_t random_u32(void);
int32_t random_int(int32_t lo, int32_t hi);

/* Counts a check, and says so if it fails. */
void expect(int ok, const char *claim);

/* Counts a check: all bytes are equal. Says which is not, as byte `at - skip` of the answer. */
void expect_equal(const lb_kernel *k, const void *want, const void *got, size_t bytes, size_t skip);

/* Runs both kernels into guarded buffers and compares all bytes: the answer, and that nothing else was written. The output
 * starts `shift` bytes off alignment. args[output] is replaced. */
void expect_same(const lb_kernel *ref, const lb_kernel *k, const void *params, void **args, int output, size_t bytes, size_t shift,
                 int32_t items);

/* One per contract, called for every kernel that this CPU can run. */
typedef void kernel_test(const lb_kernel *ref, const lb_kernel *k);
kernel_test test_gemm_s8_sizes, test_gemm_s8_pack, test_gemm_s8_s32, test_gemm_s8_f32, test_gemm_s16_s64, test_gemm_b1_s32, test_conv_s8,
    test_conv_s8_f32, test_dwconv_s8, test_linear_s8, test_linear_s8_f32, test_requantize_s8, test_add_s8, test_mul_s8, test_table_s8,
    test_max_pool_s8, test_avg_pool_s8, test_copy_b8, test_copy_b32, test_fill_b8, test_conv_s8_s16, test_linear_s8_s16, test_copy_b16,
    test_s16, test_conv3x3_s8;

#endif
