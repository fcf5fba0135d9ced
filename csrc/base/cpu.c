#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* syscall() */
#endif
#include "base/cpu.h"

const char *lb_cpu_feature_name(int index) {
    static const char *const names[] = {
#define LB_CPU_NAME(name) #name,
        LB_CPU_FEATURES(LB_CPU_NAME)
#undef LB_CPU_NAME
    };
    return names[index];
}

#if defined(__x86_64__)
#include <cpuid.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* XCR0: the register state that the operating system saves. A CPU flag without it means a crash at the first use. */
static uint64_t enabled_state(void) {
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

/* Linux gives the 8 KiB of tile registers to a process only after it has asked. */
static int may_use_tiles(void) {
#ifdef __linux__
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
#else
    return 0;
#endif
}

uint32_t lb_cpu_features(void) {
    enum { SSE_AVX = 0x6, AVX512 = 0xe0, TILES = 0x60000 };
    uint32_t a, b, c, d, found = 0;
#define HAS(reg, bit) ((reg) >> (bit) & 1)
    if (!__get_cpuid(1, &a, &b, &c, &d) || !HAS(c, 27)) /* OSXSAVE: xgetbv exists */
        return 0;
    const int fma = HAS(c, 12), f16c = HAS(c, 29);
    const uint64_t state = enabled_state();
    if ((state & SSE_AVX) != SSE_AVX || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return 0;
    const uint32_t subleaves = a;
    if (fma)
        found |= LB_CPU_fma;
    if (f16c)
        found |= LB_CPU_f16c;
    if (HAS(b, 5))
        found |= LB_CPU_avx2;
    if ((state & AVX512) == AVX512) {
        if (HAS(b, 16))
            found |= LB_CPU_avx512f;
        if (HAS(b, 17))
            found |= LB_CPU_avx512dq;
        if (HAS(b, 30))
            found |= LB_CPU_avx512bw;
        if (HAS(b, 31))
            found |= LB_CPU_avx512vl;
        if (HAS(c, 11))
            found |= LB_CPU_avx512vnni;
        if (HAS(c, 14))
            found |= LB_CPU_avx512vpopcntdq;
    }
    if ((state & TILES) == TILES && HAS(d, 24) && HAS(d, 25) && may_use_tiles())
        found |= LB_CPU_amx_int8;
    if (subleaves >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && HAS(a, 4))
        found |= LB_CPU_avxvnni;
#undef HAS
    return found;
}

#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

uint32_t lb_cpu_features(void) {
    enum { HWCAP_DOTPROD = 1 << 20, HWCAP2_INT8_MATMUL = 1 << 13 };
    uint32_t found = 0;
    if (getauxval(AT_HWCAP) & HWCAP_DOTPROD)
        found |= LB_CPU_dotprod;
    if (getauxval(AT_HWCAP2) & HWCAP2_INT8_MATMUL)
        found |= LB_CPU_i8mm;
    return found;
}

#else

/* Nobody to ask: what the compiler was told to assume. */
uint32_t lb_cpu_features(void) {
    uint32_t found = 0;
#ifdef __ARM_FEATURE_DOTPROD
    found |= LB_CPU_dotprod;
#endif
#ifdef __ARM_FEATURE_MATMUL_INT8
    found |= LB_CPU_i8mm;
#endif
    return found;
}

#endif
