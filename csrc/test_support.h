/* What the tests of the kernels share. */
#ifndef LB_TEST_SUPPORT_H
#define LB_TEST_SUPPORT_H

#include "lb.h"
#include "lb_table.h"
#include "test_list.h"

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

/* Arithmetic in integers (lb_soft.h), which no kernel of this machine uses. */
void test_soft(void);

/* One per contract, called for every kernel that this CPU can run. */
typedef void kernel_test(const lb_kernel *ref, const lb_kernel *k);
#define DECLARE(contract, test) kernel_test test;
KERNEL_TESTS(DECLARE)
#undef DECLARE

#endif
