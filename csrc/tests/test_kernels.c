/* Every compiled kernel that this CPU can run gives the right bytes: those of its `ref`, or of plain loops. Plain C, so that sanitizers and
 * emulators can run it.
 *
 * A contract is tested by one function (KERNEL_TEST) that makes inputs and calls `expect_same`; a contract without one fails. */
#include "base/cpu.h"
#include "base/numerics.h"
#include "test_support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Around the tiles of the kernels, primes, nothing and one; the last is a few tiles and a tail. */
static const int32_t sizes[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 97, 127, 128, 129, 1009};
enum { SIZE_COUNT = sizeof sizes / sizeof *sizes, MAX_N = 1024, MAX_BYTES = 1 << 16, GUARD = 64 };

static int failures, comparisons;

uint32_t random_u32(void) {
    static uint32_t state = 2463534242u;
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

int32_t random_int(int32_t lo, int32_t hi) {
    return lo + (int32_t)(random_u32() % (uint32_t)(hi - lo + 1));
}

int32_t random_broadcast(int32_t shape[4], int32_t a_stride[4], int32_t b_stride[4]) {
    int32_t items = 1, a = 1, b = 1;
    for (int i = 3; i >= 0; i--) {
        shape[i] = random_int(1, i == 3 ? 70 : 4);
        const int repeat = random_int(0, 5);
        a_stride[i] = repeat == 0 ? 0 : a, b_stride[i] = repeat == 1 ? 0 : b;
        items *= shape[i], a *= repeat == 0 ? 1 : shape[i], b *= repeat == 1 ? 1 : shape[i];
    }
    return items;
}

void *aligned_bytes(int64_t bytes) {
    void *block = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64 + 64);
    if (!block)
        abort();
    memset(block, 0x5A, (size_t)bytes);
    return block;
}

void expect(int ok, const char *claim) {
    comparisons++;
    if (!ok) {
        printf("FAIL %s\n", claim);
        failures++;
    }
}

void expect_equal(const lb_kernel *k, const void *want, const void *got, size_t bytes, size_t skip) {
    const unsigned char *w = want, *g = got;
    comparisons++;
    for (size_t i = 0; i < bytes; i++) {
        if (w[i] == g[i])
            continue;
        const long long at = (long long)i - (long long)skip;
        if (failures < 20)
            printf("FAIL %s__%s: byte %lld is %d, not %d\n", k->contract->name, k->isa->name, at, g[i], w[i]);
        failures++;
        return;
    }
}

void expect_same(const lb_kernel *ref, const lb_kernel *k, const void *params, void **args, int output, size_t bytes, size_t shift,
                 int32_t items) {
    static _Alignas(64) unsigned char want[GUARD * 2 + MAX_BYTES], got[sizeof want];
    if (bytes + shift + GUARD * 2 > sizeof want)
        abort();
    const size_t used = bytes + shift + GUARD * 2;
    memset(want, 0xA5, used);
    memset(got, 0xA5, used);
    args[output] = want + GUARD + shift;
    ref->call(params, args, 0, items);
    args[output] = got + GUARD + shift;
    const int32_t cut = items ? random_int(0, items) : 0; /* in two parts, the later one first: items are independent */
    k->call(params, args, cut, items);
    k->call(params, args, 0, cut);
    expect_equal(k, want, got, used, GUARD + shift);
}

/* ---- one function per contract -------------------------------------------------------------------------------------------- */

KERNEL_TEST(quantize_f32_s8) {
    static const float special[] = {0.0f,    -0.0f, INFINITY, -INFINITY, NAN,    -NAN,   FLT_MAX, -FLT_MAX, FLT_MIN, 1e-45f,
                                    -1e-45f, 0.5f,  -0.5f,    1.5f,      127.5f, 128.5f, -128.5f, -129.5f,  2.5f,    -2.5f};
    static const float scales[] = {1.0f, 0.5f, 0.0173f, 3.0f, 1e-45f, FLT_MIN, FLT_MAX};
    static const int32_t ranges[][3] = {{0, -128, 127}, {-128, -128, 127}, {127, -128, 127}, {-3, -128, 127}, {0, -127, 127}, {1, -8, 7}};
    static float x[MAX_N + 1];
    for (size_t s = 0; s < sizeof scales / sizeof *scales; s++)
        for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++)
            for (int z = 0; z < SIZE_COUNT; z++) {
                const int32_t n = sizes[z], off = z & 1;
                for (int32_t i = 0; i <= n; i++) {
                    const float half_steps = (float)random_int(-600, 600) * 0.5f * scales[s];
                    const float anywhere = (float)random_int(-(1 << 24), 1 << 24) * 1e-5f * scales[s];
                    const float other = special[random_u32() % (sizeof special / sizeof *special)];
                    x[i] = i % 3 == 0 ? other : i % 3 == 1 ? half_steps : anywhere;
                }
                const lb_quantize_f32_s8_params p = {scales[s], ranges[r][0], ranges[r][1], ranges[r][2]};
                void *args[2] = {x + off};
                expect_same(ref, k, &p, args, 1, (size_t)n, (size_t)z % 5, n);
            }
}

KERNEL_TEST(dequantize_s8_f32) {
    static const float scales[] = {1.0f, 0.0173f, 1e-45f, FLT_MAX};
    static const int32_t zero_points[] = {-128, -1, 0, 127};
    static int8_t x[MAX_N + 8];
    for (size_t s = 0; s < sizeof scales / sizeof *scales; s++)
        for (size_t q = 0; q < sizeof zero_points / sizeof *zero_points; q++)
            for (int z = 0; z < SIZE_COUNT; z++) {
                const int32_t n = sizes[z], off = z % 5;
                for (int32_t i = 0; i < n + 8; i++)
                    x[i] = (int8_t)random_int(-128, 127);
                const lb_dequantize_s8_f32_params p = {scales[s], zero_points[q]};
                void *args[2] = {x + off};
                expect_same(ref, k, &p, args, 1, (size_t)n * sizeof(float), sizeof(float) * (size_t)(z % 3), n);
            }
}

/* ---- the page that `ref` itself stands on ----------------------------------------------------------------------------------- */

static void test_numerics(void) {
    int all = 1;
    for (int32_t i = -(1 << 20); i <= 1 << 20; i++) { /* quarters: every kind of tie and side */
        const float v = (float)i * 0.25f;
        const int32_t low = (i >> 2), part = i & 3;
        all &= lb_rne(v) == (part < 2 ? low : part > 2 ? low + 1 : low + (low & 1));
    }
    expect(all, "lb_rne rounds to nearest, ties to even");
    all = 1;
    for (int32_t k = -128; k <= 127; k++)
        all &= lb_quantize(lb_dequantize(k, 0.0173f, -5), 0.0173f, -5, -128, 127) == k;
    expect(all, "quantize undoes dequantize on all of int8");
    expect(lb_quantize(NAN, 1.0f, 7, -128, 127) == 7, "NaN gives the zero point");
    expect(lb_quantize(INFINITY, 1.0f, 7, -128, 127) == 127 && lb_quantize(-INFINITY, 1.0f, 7, -128, 127) == -128, "infinities saturate");
    expect(lb_requantize(INT32_MAX, 1e30f, 0, -128, 127) == 127 && lb_requantize(INT32_MIN, 1e30f, 0, -128, 127) == -128,
           "requantize saturates instead of wrapping");
    expect(lb_requantize(3, 0.5f, 1, -128, 127) == 3 && lb_requantize(5, 0.5f, 1, -128, 127) == 3, "requantize rounds ties to even");
    expect(lb_clamp(-9, -8, 7) == -8 && lb_clamp(9, -8, 7) == 7 && lb_clamp(3, -8, 7) == 3, "clamp holds both ends");
}

/* Whether a kernel is tested: what this CPU can run; or, where SIMDe computes the instructions (avx512.h), the kernels that use it. */
static int is_wanted(const lb_isa *isa, uint32_t features) {
#ifdef LB_SIMDE
    (void)features;
    return strcmp(isa->name, "avxvnni") == 0 || strncmp(isa->name, "avx512", 6) == 0;
#else
    return (isa->needs & ~features) == 0;
#endif
}

int main(void) {
    const uint32_t features = lb_cpu_features();
    test_numerics();
    test_soft();
    const lb_kernel *ref = NULL;
    for (int i = 0; i < lb_kernel_count; i++) {
        const lb_kernel *k = &lb_kernels[i];
        if (strcmp(k->isa->name, "ref") == 0)
            ref = k; /* stands first among those of its contract */
        int found = 0;
        const int before = comparisons;
        for (int t = 0; t < contract_test_count; t++)
            if (strcmp(contract_tests[t].contract, k->contract->name) == 0) {
                found = 1;
                if (is_wanted(k->isa, features))
                    contract_tests[t].run(ref, k);
            }
        expect(found, k->contract->name);
        if (!found)
            printf("  ^ contract without a KERNEL_TEST\n");
        else if (comparisons == before + 1)
            printf("%-28s %-12s not on this CPU\n", k->contract->name, k->isa->name);
        else
            printf("%-28s %-12s %d comparisons\n", k->contract->name, k->isa->name, comparisons - before - 1);
    }
    printf("%s: %d checks, %d failures\n", failures ? "FAILED" : "ok", comparisons, failures);
    return failures != 0;
}
