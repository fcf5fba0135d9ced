/* What the tests of float kernels share. */
#ifndef LB_TEST_FLOAT_H
#define LB_TEST_FLOAT_H

#include "test_support.h"

enum { MAX_FLOATS = 1 << 16 };

float random_float(void);
void fill_floats(float *to, int32_t n);

/* Whether b is a, within error * factor for each element (its own size if there is no error). NaN is NaN. Says where it is not. */
int close_floats(const float *a, const float *b, const float *error, int32_t n, float factor);

/* Both kernels; `k` does the last items first. */
void call_both(const lb_kernel *ref, const lb_kernel *k, const void *p, void **args, int output, int32_t items, void *want, void *got);

/* Runs both kernels and compares n floats and what stands after them: the same bits, but for the payload of NaN. */
void expect_same_floats(const lb_kernel *ref, const lb_kernel *k, const void *p, void **args, int output, int32_t n, int32_t items);

#endif
