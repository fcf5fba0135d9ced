/* Sixteen tables of sixteen entries by vpshufb: each is asked with what is left of the index, and answers only where that is 0 ... 15. */
#include "lb.h"

#include <immintrin.h>

lb_table_s8_fn lb_table_s8__avx2;

void lb_table_s8__avx2(const lb_table_s8_params *p, const int8_t *x, const int8_t *table, int8_t *out, int32_t begin, int32_t end) {
    (void)p;
    __m256i parts[16];
    for (int i = 0; i < 16; i++)
        parts[i] = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)(table + 16 * i)));
    const __m256i flip = _mm256_set1_epi8(-128), sixteen = _mm256_set1_epi8(16), high = _mm256_set1_epi8(112);
    int32_t i = begin;
    for (; i <= end - 32; i += 32) {
        __m256i index = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(const void *)(x + i)), flip);
        __m256i y = _mm256_setzero_si256();
        for (int j = 0; j < 16; j++) { /* + 112 with saturation sets bit 7 of all that is 16 or more, and vpshufb gives 0 there */
            y = _mm256_or_si256(y, _mm256_shuffle_epi8(parts[j], _mm256_adds_epu8(index, high)));
            index = _mm256_sub_epi8(index, sixteen);
        }
        _mm256_storeu_si256((__m256i *)(void *)(out + i), y);
    }
    for (; i < end; i++)
        out[i] = table[x[i] + 128];
}
