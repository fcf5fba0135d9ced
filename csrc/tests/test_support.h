/* What the tests of the kernels share. */
#ifndef LB_TEST_SUPPORT_H
#define LB_TEST_SUPPORT_H

#include "lb.h"
#include "base/kernel_table.h"

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

/* Shapes and strides of two operands that broadcast; the number of results. */
int32_t random_broadcast(int32_t shape[4], int32_t a_stride[4], int32_t b_stride[4]);

/* So many bytes, aligned to 64, which are not zeros. The caller frees them. */
void *aligned_bytes(int64_t bytes);

/* A pad and the sizes of the output for a window that p describes, with up to `most` pixels of padding before and after the image. 0: the
 * window does not fit. */
#define RANDOM_OUTPUT(p, most)                                                                                                             \
    ((p).pad_h = random_int(0, most), (p).pad_w = random_int(0, most),                                                                     \
     (p).out_h = (p).in_h + (p).pad_h + random_int(0, most) - (p).dilation_h * ((p).kernel_h - 1) - 1,                                     \
     (p).out_w = (p).in_w + (p).pad_w + random_int(0, most) - (p).dilation_w * ((p).kernel_w - 1) - 1,                                     \
     (p).out_h >= 0 && (p).out_w >= 0 && ((p).out_h = (p).out_h / (p).stride_h + 1, (p).out_w = (p).out_w / (p).stride_w + 1))

/* Arithmetic in integers (soft.h), which no kernel of this machine uses. */
void test_soft(void);

/* A test of a contract, run for every kernel of it that this CPU can run: KERNEL_TEST(add_s8) { ... }. TESTED_BY names a function that
 * tests several contracts, TESTED_WITH also what it is called with. The build finds these lines and makes the list of all tests
 * (kernel_table.py). */
typedef void kernel_test(const lb_kernel *ref, const lb_kernel *k);
#define KERNEL_TEST(contract)                                                                                                              \
    kernel_test test_of_##contract;                                                                                                        \
    void test_of_##contract(const lb_kernel *ref, const lb_kernel *k)
#define TESTED_BY(contract, test)                                                                                                          \
    KERNEL_TEST(contract) {                                                                                                                \
        test(ref, k);                                                                                                                      \
    }
#define TESTED_WITH(contract, test, ...)                                                                                                   \
    KERNEL_TEST(contract) {                                                                                                                \
        test(ref, k, __VA_ARGS__);                                                                                                         \
    }

typedef struct {
    const char *contract;
    kernel_test *run;
} contract_test;

extern const contract_test contract_tests[];
extern const int contract_test_count;

/* Zero point, lo and hi of an output of `bytes`. */
static inline void clamp_of(int32_t bytes, int32_t *zero, int32_t *lo, int32_t *hi) {
    const int32_t half = bytes == 1 ? 128 : bytes == 2 ? 32768 : 0;
    *lo = half ? random_int(-half, 0) : 0, *hi = half ? random_int(0, half - 1) : 0;
    if (random_int(0, 1))
        *lo = -half, *hi = half ? half - 1 : 0;
    *zero = half ? random_int(*lo, *hi) : 0;
}

/* Bytes of an output. */
static inline int32_t width(void) {
    return 1 << random_int(0, 2);
}

static inline int32_t pick(const int32_t *from, int32_t count) {
    return from[random_int(0, count - 1)];
}

#define PICK(list) pick(list, (int32_t)(sizeof list / sizeof *list))

#endif
