/* LB_UNROLL before a loop over accumulators: it is unrolled early enough that they live in registers. Compilers have a word of their own.
 * LB_UNROLL_ALL the same where there are up to 16 of them, and the compiler must not think that too many.
 * LB_INLINE before a function whose arguments say how large a tile is: they are known where it is called. Through SIMDe nothing is
 * optimized, and inlined tiles of emulated vectors take half a minute to compile. */
#ifndef LB_UNROLL_H
#define LB_UNROLL_H

#ifdef LB_SIMDE
#define LB_INLINE static inline
#else
#define LB_INLINE static inline __attribute__((always_inline))
#endif

#if defined __clang__
#define LB_UNROLL _Pragma("unroll")
#define LB_UNROLL_ALL _Pragma("clang loop unroll(full)")
#elif defined __GNUC__
#define LB_UNROLL _Pragma("GCC unroll 8")
#define LB_UNROLL_ALL _Pragma("GCC unroll 16")
#else
#define LB_UNROLL
#define LB_UNROLL_ALL
#endif

/* F for each number of rows that a tile may have. */
#define LB_1_TO_6(F) F(1) F(2) F(3) F(4) F(5) F(6)

#endif
