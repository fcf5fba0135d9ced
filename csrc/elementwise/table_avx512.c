/* Entries by twos: a table of 128 words stands in four registers, and vpermt2w looks at six bits of an index. The seventh chooses between
 * two such answers, the lowest bit of a byte between the two entries of a word. Even and odd bytes are asked for one after the other. */
#include "lb.h"
#include "base/avx512.h"

lb_table_s8_fn lb_table_s8__avx512;

/* Both entries of a word for each of 32 indices; `upper` are those of the second half. */
static inline __m512i look_up(const __m512i *words, __m512i index, __mmask32 upper) {
    const __m512i low = _mm512_permutex2var_epi16(words[0], index, words[1]), high = _mm512_permutex2var_epi16(words[2], index, words[3]);
    return _mm512_mask_mov_epi16(low, upper, high);
}

void lb_table_s8__avx512(const lb_table_s8_params *p, const int8_t *x, const int8_t *table, int8_t *out, int32_t begin, int32_t end) {
    (void)p;
    const __mmask64 odd = 0xAAAAAAAAAAAAAAAA;
    const __m512i words[4] = {_mm512_loadu_si512(table + 128), _mm512_loadu_si512(table + 192), _mm512_loadu_si512(table),
                              _mm512_loadu_si512(table + 64)}; /* bytes from 0 on, then those below it */
    for (int32_t i = begin; i < end; i += 64) {
        const __mmask64 there = end - i < 64 ? ((__mmask64)1 << (end - i)) - 1 : ~(__mmask64)0;
        const __m512i v = _mm512_maskz_loadu_epi8(there, x + i);
        const __m512i even_ones = look_up(words, _mm512_srli_epi16(v, 1), _mm512_movepi16_mask(_mm512_slli_epi16(v, 8)));
        const __m512i odd_ones = look_up(words, _mm512_srli_epi16(v, 9), _mm512_movepi16_mask(v));
        const __m512i first = _mm512_mask_mov_epi8(even_ones, odd, _mm512_slli_epi16(odd_ones, 8));
        const __m512i second = _mm512_mask_mov_epi8(_mm512_srli_epi16(even_ones, 8), odd, odd_ones);
        _mm512_mask_storeu_epi8(out + i, there, _mm512_mask_mov_epi8(first, _mm512_test_epi8_mask(v, _mm512_set1_epi8(1)), second));
    }
}
