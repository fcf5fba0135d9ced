/* What one core can do at most, in registers only: multiplications a second of the chains that the kernels are made of. Built by
 * kernels.py. Each function repeats its chain `count` times and gives how many multiplications that were. */
#include <stdint.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define ALL "ymm0", "ymm1", "ymm2", "ymm3", "ymm4", "ymm5", "ymm6", "ymm7", "ymm8", "ymm9", "ymm10", "ymm11", "ymm12", "ymm13", "ymm14", "ymm15"
#define TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define FOUR(X) X(0) X(1) X(2) X(3)
#define R(i) "%%ymm" TEXT(i)

#define FMA(i) "vfmadd231ps %%ymm14, %%ymm15, " R(i) "\n\t"
#define BYTES(i) "vpmaddubsw %%ymm14, %%ymm15, %%ymm12\n\tvpmaddwd %%ymm14, %%ymm12, %%ymm12\n\tvpaddd %%ymm12, " R(i) ", " R(i) "\n\t"
#define WORDS(i) "vpmaddwd %%ymm14, %%ymm15, %%ymm12\n\tvpaddd %%ymm12, " R(i) ", " R(i) "\n\t"
#define PAIRS(i)                                                                                                                           \
    "vpaddw %%ymm14, %%ymm15, %%ymm12\n\tvpaddw %%ymm13, %%ymm15, %%ymm11\n\tvpmaddwd %%ymm11, %%ymm12, %%ymm12\n\tvpaddd %%ymm12, " R(   \
        i) ", " R(i) "\n\t"
#define START(i) "vpmaddubsw %%ymm14, %%ymm15, " R(i) "\n\t"
#define MORE(i) "vpmaddubsw %%ymm14, %%ymm15, %%ymm12\n\tvpaddw %%ymm12, " R(i) ", " R(i) "\n\t"
#define CENTRE(i) "vpaddw %%ymm13, " R(i) ", " R(i) "\n\t"
#define WIDEN(i, j) "vpmaddwd %%ymm14, " R(i) ", %%ymm12\n\tvpaddd %%ymm12, " R(j) ", " R(j) "\n\t"

#define CHAIN(name, code, products)                                                                                                        \
    double name(int64_t count) {                                                                                                           \
        __asm__ volatile("vzeroall" ::: ALL); /* what was there before may be floats that take an assist each */                           \
        for (int64_t i = 0; i < count; i++)                                                                                                \
            __asm__ volatile(code ::: ALL);                                                                                                \
        return (double)count * (products);                                                                                                 \
    }

CHAIN(fma, TWELVE(FMA), 12 * 8)
CHAIN(bytes, TWELVE(BYTES), 12 * 32)
CHAIN(words, TWELVE(WORDS), 12 * 16)
CHAIN(madd16, FOUR(PAIRS) FOUR(PAIRS) FOUR(PAIRS), 12 * 32)
CHAIN(maddubs_w, FOUR(START) FOUR(MORE) FOUR(MORE) FOUR(MORE) WIDEN(0, 4) WIDEN(1, 5) WIDEN(2, 6) WIDEN(3, 7), 4 * 4 * 32)
CHAIN(maddubs_s8, FOUR(START) FOUR(MORE) FOUR(MORE) FOUR(MORE) FOUR(CENTRE) WIDEN(0, 4) WIDEN(1, 5) WIDEN(2, 6) WIDEN(3, 7), 4 * 4 * 32)
CHAIN(nibbles, FOUR(START) FOUR(MORE) FOUR(MORE) FOUR(MORE) FOUR(MORE) FOUR(MORE) FOUR(MORE) FOUR(MORE) WIDEN(0, 4) WIDEN(1, 5) WIDEN(2, 6)
                   WIDEN(3, 7),
      4 * 8 * 16)

/* Reads a multiple of 256 bytes at an address that is a multiple of 32. */
void reading(const char *from, int64_t bytes) {
#define READ(i) "vmovdqa 32*" TEXT(i) "(%0), " R(i) "\n\t"
    for (const char *end = from + bytes; from < end; from += 256)
        __asm__ volatile(READ(0) READ(1) READ(2) READ(3) READ(4) READ(5) READ(6) READ(7) ::"r"(from) : "memory", ALL);
}
