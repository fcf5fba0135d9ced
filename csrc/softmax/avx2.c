/* Rows along the last axis. Sums are loads from the table, one for each element: nothing on AVX2 is faster. Elements are a function of
 * their distance from the largest: in long rows of bytes of 256 distances, which are computed once and looked up. */
#include "lb.h"
#include "base/store_avx2.h"
#include "softmax/softmax_row.h"

lb_softmax_int_fn lb_softmax_int__avx2;

enum { CHUNK = 128 };

static int32_t most8(const int8_t *x, int32_t n) {
    __m256i most = _mm256_set1_epi8(-128);
    int32_t i = 0, found = -128;
    for (; i <= n - 32; i += 32)
        most = _mm256_max_epi8(most, _mm256_loadu_si256((const __m256i *)(const void *)(x + i)));
    int8_t each[32];
    _mm256_storeu_si256((__m256i *)(void *)each, most);
    for (int j = 0; j < 32; j++)
        found = each[j] > found ? each[j] : found;
    for (; i < n; i++)
        found = x[i] > found ? x[i] : found;
    return found;
}

static int32_t most16(const int16_t *x, int32_t n) {
    int32_t found = -32768;
    for (int32_t i = 0; i < n; i++)
        found = x[i] > found ? x[i] : found;
    return found;
}

/* How far up to CHUNK bytes are below the largest. */
static void distances(const int8_t *x, int32_t most, int32_t count, uint8_t *to) {
    const __m256i top = _mm256_set1_epi8((char)most);
    int32_t i = 0;
    for (; i <= count - 32; i += 32)
        _mm256_storeu_si256((__m256i *)(void *)(to + i), _mm256_sub_epi8(top, _mm256_loadu_si256((const __m256i *)(const void *)(x + i))));
    for (; i < count; i++)
        to[i] = (uint8_t)(most - x[i]);
}

/* A distance that the compiler takes for a number of its own: else it builds vectors of what was looked up, which takes twice as long. */
static inline size_t alone(uint8_t d) {
    size_t v = d;
#ifdef __GNUC__
    __asm__("" : "+r"(v));
#endif
    return v;
}

/* Entries are positive, so they may be taken for unsigned: no sign to spread. */
static int64_t sum8(const int8_t *x, const int32_t *table, int32_t most, int32_t n) {
    uint64_t even = 0, odd = 0;
    for (int32_t i = 0; i < n; i += CHUNK) {
        uint8_t d[CHUNK];
        const int32_t count = n - i < CHUNK ? n - i : CHUNK;
        distances(x + i, most, count, d);
        int32_t j = 0;
        for (; j <= count - 4; j += 4) {
            even += (uint32_t)table[alone(d[j])], odd += (uint32_t)table[alone(d[j + 1])];
            even += (uint32_t)table[alone(d[j + 2])], odd += (uint32_t)table[alone(d[j + 3])];
        }
        for (; j < count; j++)
            even += (uint32_t)table[d[j]];
    }
    return (int64_t)(even + odd);
}

static int64_t sum16(const int16_t *x, const int32_t *table, int32_t most, int32_t n) {
    int64_t total = 0;
    for (int32_t i = 0; i < n; i++)
        total += table[most - x[i]];
    return total;
}

/* `count` elements from integers, which are entries of the table or distances. */
static void put(const lb_softmax_int_params *p, const lb_softmax_row *row, const int32_t *from, void *out, ptrdiff_t at, int32_t count,
                const lb_target *target) {
    const __m256 factor = _mm256_set1_ps(row->factor), log = _mm256_set1_ps(row->log);
    for (int32_t i = 0; i < count; i += 8) {
        __m256i v = _mm256_setzero_si256();
        if (count - i >= 8)
            v = _mm256_loadu_si256((const __m256i *)(const void *)(from + i));
        else
            memcpy(&v, from + i, 4 * (size_t)(count - i));
        if (p->logarithm)
            v = _mm256_sub_epi32(_mm256_setzero_si256(), v);
        __m256 y = _mm256_mul_ps(_mm256_cvtepi32_ps(v), factor);
        if (p->logarithm)
            y = _mm256_sub_ps(y, log);
        lb_put8(out, at + i, y, count - i < 8 ? count - i : 8, target);
    }
}

typedef union {
    float reals[256];
    int16_t words[256];
    int8_t bytes[256];
} results;

/* `n` bytes by a table of distances. */
static void look_up(const results *r, int32_t out_bytes, const int8_t *x, int32_t most, int32_t n, void *out, ptrdiff_t at) {
    for (int32_t i = 0; i < n; i += CHUNK, at += CHUNK) {
        uint8_t d[CHUNK];
        const int32_t count = n - i < CHUNK ? n - i : CHUNK;
        distances(x + i, most, count, d);
        if (out_bytes == 4)
            for (int32_t j = 0; j < count; j++)
                ((float *)out)[at + j] = r->reals[alone(d[j])];
        else if (out_bytes == 2)
            for (int32_t j = 0; j < count; j++)
                ((int16_t *)out)[at + j] = r->words[alone(d[j])];
        else
            for (int32_t j = 0; j < count; j++)
                ((int8_t *)out)[at + j] = r->bytes[alone(d[j])];
    }
}

void lb_softmax_int__avx2(const lb_softmax_int_params *p, const void *x, const int32_t *table, void *out, int32_t begin, int32_t end) {
    const lb_target target = lb_target_of(p->out_bytes, p->y_zero, p->lo, p->hi);
    for (int32_t item = begin; item < end; item++) {
        if (p->inner != 1 || p->n < 16) { /* few elements are not worth the beginning */
            lb_softmax_item(p, x, table, out, item);
            continue;
        }
        const ptrdiff_t at = (ptrdiff_t)item * p->n;
        const int8_t *bytes = p->x_bytes == 1 ? (const int8_t *)x + at : NULL;
        const int16_t *words = p->x_bytes == 1 ? NULL : (const int16_t *)x + at;
        const int32_t most = bytes ? most8(bytes, p->n) : most16(words, p->n);
        const lb_softmax_row row = lb_softmax_row_of(p, table, bytes ? sum8(bytes, table, most, p->n) : sum16(words, table, most, p->n));
        if (bytes && p->n >= CHUNK) {
            results r;
            int32_t numbers[256];
            for (int32_t d = 0; d < 256 && p->logarithm; d++)
                numbers[d] = d;
            put(p, &row, p->logarithm ? numbers : table, &r, 0, most + 129, &target);
            look_up(&r, p->out_bytes, bytes, most, p->n, out, at);
            continue;
        }
        for (int32_t i = 0; i < p->n; i += CHUNK) {
            int32_t from[CHUNK];
            const int32_t count = p->n - i < CHUNK ? p->n - i : CHUNK;
            for (int32_t j = 0; j < count; j++) {
                const int32_t d = most - (bytes ? bytes[i + j] : words[i + j]);
                from[j] = p->logarithm ? d : table[d];
            }
            put(p, &row, from, out, at + i, count, &target);
        }
    }
}
