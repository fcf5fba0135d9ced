/* LB_UNROLL before a loop over accumulators: rolled out early enough that they live in registers. Compilers have a word of their own. */
#ifndef LB_UNROLL_H
#define LB_UNROLL_H

#if defined __clang__
#define LB_UNROLL _Pragma("unroll")
#elif defined __GNUC__
#define LB_UNROLL _Pragma("GCC unroll 8")
#else
#define LB_UNROLL
#endif

#endif
