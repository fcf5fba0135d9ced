/* Bits are counted by nibbles from a table (vpshufb); bytes hold the counts of at most 31 vectors, then vpsadbw adds them up. */
#include "lb.h"

#include <immintrin.h>
#include <stddef.h>

lb_gemm_b1_s32_fn lb_gemm_b1_s32__avx2;

enum { WORDS = 4, VECTORS = 31, TILE = 4 };

static inline __m256i ones_of_bytes(__m256i v) {
    const __m256i table = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
    const __m256i low = _mm256_set1_epi8(15);
    const __m256i a = _mm256_shuffle_epi8(table, _mm256_and_si256(v, low));
    return _mm256_add_epi8(a, _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(v, 4), low)));
}

/* differ[r] = bits in which a and row r of b differ. */
static inline __attribute__((always_inline)) void tile(const int rows, const uint64_t *a, const uint64_t *b, int32_t words,
                                                       int32_t *differ) {
    __m256i sums[TILE];
    for (int r = 0; r < rows; r++)
        sums[r] = _mm256_setzero_si256();
    const int32_t whole = words - words % WORDS;
    for (int32_t w = 0; w < whole;) {
        const int32_t end = whole - w < VECTORS * WORDS ? whole : w + VECTORS * WORDS;
        __m256i bytes[TILE];
        for (int r = 0; r < rows; r++)
            bytes[r] = _mm256_setzero_si256();
        for (; w < end; w += WORDS) {
            const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(a + w));
            for (int r = 0; r < rows; r++) {
                const __m256i u = _mm256_loadu_si256((const __m256i *)(const void *)(b + (ptrdiff_t)r * words + w));
                bytes[r] = _mm256_add_epi8(bytes[r], ones_of_bytes(_mm256_xor_si256(v, u)));
            }
        }
        for (int r = 0; r < rows; r++)
            sums[r] = _mm256_add_epi64(sums[r], _mm256_sad_epu8(bytes[r], _mm256_setzero_si256()));
    }
    for (int r = 0; r < rows; r++) {
        const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(sums[r]), _mm256_extracti128_si256(sums[r], 1));
        int64_t count = _mm_cvtsi128_si64(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two)));
        for (int32_t w = whole; w < words; w++)
            count += __builtin_popcountll(a[w] ^ b[(ptrdiff_t)r * words + w]);
        differ[r] = (int32_t)count;
    }
}

void lb_gemm_b1_s32__avx2(const lb_gemm_b1_s32_params *p, const uint64_t *a, const uint64_t *b, int32_t *out) {
    for (int32_t j = 0; j < p->n; j += TILE) {
        const uint64_t *rows = b + (int64_t)j * p->words;
        const int32_t count = p->n - j < TILE ? p->n - j : TILE;
        for (int32_t i = 0; i < p->m; i++) {
            const uint64_t *row = a + (int64_t)i * p->words;
            int32_t differ[TILE];
            if (count == TILE)
                tile(TILE, row, rows, p->words, differ);
            else
                for (int32_t r = 0; r < count; r++)
                    tile(1, row, rows + (int64_t)r * p->words, p->words, differ + r);
            for (int32_t r = 0; r < count; r++)
                out[i * p->out_stride + j + r] = p->k - 2 * differ[r];
        }
    }
}
