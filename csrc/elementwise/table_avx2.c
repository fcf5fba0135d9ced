/* Rows of sixteen entries by vpshufb, which looks at the low four bits of an index and gives 0 where its highest is set.
 *
 * Indices count away from the middle, up for bytes from 0 on and down for those below. Asked with index - 16 * j, row j answers all that
 * lie on it or beyond, so each row holds what differs from the one before: differences of all rows up to one's own are its entries.
 * Ends of a table that stay the same (a relu, a hard swish, whatever saturates) need no rows: indices are clamped to where they begin. */
#include "lb.h"
#include "base/unroll.h"

#include <immintrin.h>

lb_table_s8_fn lb_table_s8__avx2;

enum { FEW = 160 }; /* elements for which making rows does not pay */

typedef struct {
    __m256i up[8], down[8]; /* rows from 0 and from -1 on */
    __m256i least, most;    /* bytes below and above have the same entry */
    int ups, downs;         /* rows that are asked */
} rows;

static inline __m128i row(const int8_t *table, int j) {
    return _mm_loadu_si128((const __m128i *)(const void *)(table + 16 * j));
}

/* Entries before `first` equal it, and entries after `last` equal that. */
static rows rows_of(const int8_t *table) {
    int first = 0, last = 255;
    for (const __m128i same = _mm_set1_epi8(table[0]); first < 240; first += 16)
        if (_mm_movemask_epi8(_mm_cmpeq_epi8(row(table, first / 16), same)) != 0xffff)
            break;
    for (first -= first > 0; first < 255 && table[first + 1] == table[0]; first++) {
    }
    for (const __m128i same = _mm_set1_epi8(table[255]); last > first + 16; last -= 16)
        if (_mm_movemask_epi8(_mm_cmpeq_epi8(row(table, last / 16), same)) != 0xffff)
            break;
    for (last += last<255; last> first && table[last - 1] == table[255]; last--) {
    }
    rows r = {.least = _mm256_set1_epi8((char)(first - 128)), .most = _mm256_set1_epi8((char)(last - 128))};
    r.ups = last < 128 ? 0 : (last - 128) / 16 + 1, r.downs = first > 127 ? 0 : (127 - first) / 16 + 1;
    const __m128i back = _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    __m128i before = _mm_setzero_si128();
    for (int j = 0; j < r.ups; j++, before = row(table, 7 + j))
        r.up[j] = _mm256_broadcastsi128_si256(_mm_xor_si128(row(table, 8 + j), before));
    before = _mm_setzero_si128();
    for (int j = 0; j < r.downs; j++, before = row(table, 8 - j))
        r.down[j] = _mm256_broadcastsi128_si256(_mm_shuffle_epi8(_mm_xor_si128(row(table, 7 - j), before), back));
    return r;
}

/* The entries of `count` times 32 bytes. */
static inline void look_up(const rows *r, const int8_t *x, int8_t *out, int count) {
    const __m256i sixteen = _mm256_set1_epi8(16), outside = _mm256_set1_epi8(-16); /* which stays below 0 for all rows */
    __m256i up[4], down[4], y[4];
    LB_UNROLL for (int v = 0; v < count; v++) {
        const __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)(x + 32 * v));
        const __m256i index = _mm256_min_epi8(_mm256_max_epi8(bytes, r->least), r->most);
        up[v] = _mm256_max_epi8(index, outside);
        down[v] = _mm256_max_epi8(_mm256_xor_si256(index, _mm256_set1_epi8(-1)), outside);
        y[v] = _mm256_setzero_si256();
    }
    for (int j = 0; j < r->ups; j++)
        LB_UNROLL for (int v = 0; v < count; v++) {
            y[v] = _mm256_xor_si256(y[v], _mm256_shuffle_epi8(r->up[j], up[v]));
            up[v] = _mm256_sub_epi8(up[v], sixteen);
        }
    for (int j = 0; j < r->downs; j++)
        LB_UNROLL for (int v = 0; v < count; v++) {
            y[v] = _mm256_xor_si256(y[v], _mm256_shuffle_epi8(r->down[j], down[v]));
            down[v] = _mm256_sub_epi8(down[v], sixteen);
        }
    LB_UNROLL for (int v = 0; v < count; v++) _mm256_storeu_si256((__m256i *)(void *)(out + 32 * v), y[v]);
}

void lb_table_s8__avx2(const lb_table_s8_params *p, const int8_t *x, const int8_t *table, int8_t *out, int32_t begin, int32_t end) {
    (void)p;
    int32_t i = begin;
    if (end - begin >= FEW) {
        const rows r = rows_of(table);
        for (; i <= end - 128; i += 128)
            look_up(&r, x + i, out + i, 4);
        for (; i <= end - 32; i += 32)
            look_up(&r, x + i, out + i, 1);
    }
    for (; i < end; i++)
        out[i] = table[x[i] + 128];
}
