/* The features of the CPU that the operating system supports. */
#ifndef LB_CPU_H
#define LB_CPU_H

#include <stdint.h>

/* One row per feature: csrc/isas.txt names them, Python lists them. */
#define LB_CPU_FEATURES(X) LB_CPU_FEATURES_X86(X) LB_CPU_FEATURES_ARM(X)
#define LB_CPU_FEATURES_X86(X)                                                                                                             \
    X(avx2) X(fma) X(f16c) X(avxvnni) X(avx512f) X(avx512bw) X(avx512dq) X(avx512vl) X(avx512vnni) X(avx512vpopcntdq) X(amx_int8)
#define LB_CPU_FEATURES_ARM(X) X(dotprod) X(i8mm)

enum {
#define LB_CPU_INDEX(name) LB_CPU_INDEX_##name,
    LB_CPU_FEATURES(LB_CPU_INDEX)
#undef LB_CPU_INDEX
        LB_CPU_FEATURE_COUNT
};

enum {
#define LB_CPU_BIT(name) LB_CPU_##name = 1 << LB_CPU_INDEX_##name,
    LB_CPU_FEATURES(LB_CPU_BIT)
#undef LB_CPU_BIT
};

/* The set of LB_CPU_* bits that code may use in this process. Asks the CPU at every call: keep the answer. */
uint32_t lb_cpu_features(void);

/* The name of feature `index` (0 ... LB_CPU_FEATURE_COUNT - 1). */
const char *lb_cpu_feature_name(int index);

#endif
