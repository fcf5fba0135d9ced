/* Weights of linear_s8 and conv_s8 as AVX2 wants them, packed for one of these methods. Each is exact; linear_s8_pack chooses one for a
 * layer (README.md of this folder):
 *
 *   madd16      int16 by vpmaddwd, with Winograd's inner product of 1968, as in gemm_s8_avx2.h: for weights of any kind, and many rows
 *   plain       int16 by vpmaddwd: for rows so short that what happens before and after the products takes longer
 *   maddubs_w   bytes by vpmaddubsw, where the weights are such that sums of int16 hold: maddubs_weights_avx2.h
 *   maddubs_s8  bytes by vpmaddubsw, where activations are such that they hold: maddubs_s8_avx2.h, for weights of any kind, many rows
 *               Blocks of rows that are far from their zero point: madd16 in Strassen's seven products of halves, strassen_avx2.h
 *   gemv        the same for each row by itself: gemv_avx2.h, for few rows, because every weight is read once and as a byte;
 *               and its form for activations near -128, gemv_u8
 *   maddubs_u8  bytes by vpmaddubsw, where the activations are such that sums of int16 hold: maddubs_u8_avx2.h. Rows whose activations
 *               are too large for it: in halves, nibbles_avx2.h
 *
 * Packed: a head of 64 bytes; for each column, n rounded up to 16, the sum of its weights; for each column what the method adds to
 * every accumulator; then from a multiple of 64 on the method's own. Activations stand as they are for madd16 and plain, less their
 * zero point for maddubs_s8 and gemv, plus 128 for the others: a column's accumulator begins with bias + added - (zero point, or 0, or
 * it plus 128) * sum, modulo 2^32. */
#ifndef LB_WEIGHTS_AVX2_H
#define LB_WEIGHTS_AVX2_H

#include "linear/avx2/gemv_avx2.h"
#include "gemm/gemm_s8_avx2.h"

typedef enum { LB_MADD16, LB_MADDUBS_W, LB_PLAIN, LB_MADDUBS_U8, LB_MADDUBS_S8, LB_GEMV, LB_GEMV_U8 } lb_method_id;

typedef struct {
    int32_t method;
    int32_t unused[15];
} lb_weights_head;

_Static_assert(sizeof(lb_weights_head) == 64, "what follows is aligned");

enum {
    LB_MADDUBS_W_COLUMNS = 8,
    LB_MADDUBS_W_MOST = 6,
    LB_MADDUBS_W_ROWS = 6,
    LB_MADDUBS_W_CHUNK = 1024,
    LB_NIBBLE_STEP = 32,
    LB_GEMV_COLUMNS = 32,
    LB_GEMV_ROWS = 4
};

/* Eight columns of maddubs_w and LB_MADDUBS_W_CHUNK of k: groups take their quads from no further, so that what they read is near. */
typedef struct {
    uint32_t weights;                       /* where its groups are, in units of 32 bytes from the head */
    uint32_t quads;                         /* where the numbers of its quads are, in units of 32 bytes from the head */
    uint32_t groups[2 * LB_MADDUBS_W_MOST]; /* how many there are of each kind; the last come first */
} lb_maddubs_w_panel;

/* Groups of 1, 2, ... quads, and then those whose first quad is turned. */
static inline int lb_maddubs_w_kind(int size, int turned) {
    return size - 1 + (turned ? LB_MADDUBS_W_MOST : 0);
}

enum { LB_MADDUBS_U8_CHUNK = 1024 };

/* A quad of a block of rows of maddubs_u8: where its activations are in a row, and its weights in a panel, in bytes. */
typedef struct {
    uint32_t a, w;
} lb_maddubs_u8_item;

/* LB_MADDUBS_U8_CHUNK of k: groups take their quads from no further, as those of maddubs_w. */
typedef struct {
    uint32_t first;              /* of its items, which stand group by group */
    uint32_t threes, twos, ones; /* groups of so many quads, in that order */
    int32_t heavy;               /* in the first chunk: whether the rows are in halves instead */
} lb_maddubs_u8_chunk;

/* How many of its quads are. */
static inline uint32_t lb_turned(const lb_maddubs_w_panel *panel) {
    uint32_t count = 0;
    for (int size = 1; size <= LB_MADDUBS_W_MOST; size++)
        count += panel->groups[lb_maddubs_w_kind(size, 1)];
    return count;
}

static inline int32_t *lb_weight_sums(const void *packed) {
    return (int32_t *)((char *)packed + sizeof(lb_weights_head));
}

static inline int32_t *lb_weight_added(const void *packed, int32_t n) {
    return lb_weight_sums(packed) + lb_round_up(n, LB_PANEL);
}

/* Bytes before the method's own. */
static inline ptrdiff_t lb_weights_front(int32_t n) {
    return (ptrdiff_t)sizeof(lb_weights_head) + lb_round_up(8 * lb_round_up(n, LB_PANEL), 64);
}

static inline ptrdiff_t lb_maddubs_w_panels(int32_t n) {
    return lb_round_up(n, LB_MADDUBS_W_COLUMNS) / LB_MADDUBS_W_COLUMNS;
}

static inline ptrdiff_t lb_maddubs_w_chunks(int32_t k) {
    return lb_round_up(k, LB_MADDUBS_W_CHUNK) / LB_MADDUBS_W_CHUNK;
}

/* The most bytes that any method takes: maddubs_w is used only where it fits. */
static inline ptrdiff_t lb_weights_bytes(int32_t k, int32_t n) {
    const ptrdiff_t columns = lb_round_up(n, LB_PANEL);
    const ptrdiff_t madd16 = 2 * columns * lb_round_up(k, LB_STEP),
                    nibbles = columns * lb_round_up(k, LB_NIBBLE_STEP); /* gemv: as madd16 */
    return lb_weights_front(n) + (madd16 > nibbles ? madd16 : nibbles);
}

enum { LB_MADDUBS_S8_ROWS = 3, LB_MADDUBS_S8_STAGED = 2 * LB_MADDUBS_S8_ROWS + 2 * 4 + 4 * 2 };

/* A tile of maddubs_s8: how many groups there are of each kind (maddubs_s8_loops_avx2.h), of four quads after `halves` of them where it
 * stands in halves; and what is taken away from all sums of a row, modulo 2^32. While it is made: the sum of |d|, how many rows there are,
 * and how many quads were cut off each. */
typedef struct {
    int64_t size;
    int32_t groups[5], halves, rows;
    int32_t cut[LB_MADDUBS_S8_ROWS];
    uint32_t more[LB_MADDUBS_S8_ROWS];
} lb_maddubs_s8_head;

/* Four d of a row, and where their weights are in a panel. */
typedef struct {
    uint32_t w;
    int32_t d;
} lb_maddubs_s8_rest;

/* Of a row, at most. */
static inline int32_t lb_maddubs_s8_rest_most(int32_t k) {
    return k / 8 + 4;
}

/* Bytes of the groups of a tile at most: as many as halves take. */
static inline ptrdiff_t lb_maddubs_s8_most(int32_t k) {
    return 2 * 64 * (lb_round_up(k, LB_STEP) / LB_STEP);
}

/* Rows of activations in scratch. From row to row an odd number of cache lines, as in gemm_s8_avx2.h. */
typedef struct {
    ptrdiff_t rows;
    ptrdiff_t stride; /* bytes; of maddubs_s8 from tile to tile */
    ptrdiff_t bytes;  /* of scratch */
    uint8_t *a;       /* int16 for madd16 and plain; for nibbles the upper halves */
    uint8_t *low;     /* nibbles: the lower halves */
    int32_t *pairs;   /* madd16: a number for each row */
    int32_t *acc;     /* madd16 and maddubs_u8: rows x LB_PANEL */
    uint16_t *loads;  /* maddubs_u8: one for two k, and what was made of them */
    lb_maddubs_u8_item *items;
    lb_maddubs_u8_chunk *chunks;
    ptrdiff_t staged; /* maddubs_s8: bytes of a row in `low`, where three rows are as they came, then d of three rows, then quads and their
                         sums, four times as much each, then four lists of them, twice as much each */
    lb_maddubs_s8_head *heads;
    int32_t k;
} lb_rows;

/* The parts of scratch for blocks of m rows of k activations. */
typedef lb_rows lb_rows_fn(void *base, int32_t m, int32_t k);

static inline ptrdiff_t lb_odd_lines(ptrdiff_t bytes) {
    return 64 * ((bytes + 63) / 64 | 1);
}

/* Rows that stay in the cache as int16. */
static inline ptrdiff_t lb_rows_of_words(int32_t m, int32_t k) {
    return lb_block_rows(m, lb_round_up(k, LB_STEP));
}

static inline lb_rows lb_madd16_rows_at(void *base, int32_t m, int32_t k) {
    const ptrdiff_t rows = lb_rows_of_words(m, k), stride = lb_odd_lines(2 * lb_round_up(k, LB_STEP)), numbers = lb_round_up(4 * rows, 64);
    uint8_t *end = (uint8_t *)base + rows * stride;
    return (lb_rows){.rows = rows,
                     .stride = stride,
                     .bytes = rows * stride + numbers + 4 * LB_PANEL * rows,
                     .a = base,
                     .pairs = (int32_t *)(void *)end,
                     .acc = (int32_t *)(void *)(end + numbers)};
}

static inline lb_rows lb_plain_rows_at(void *base, int32_t m, int32_t k) {
    const ptrdiff_t rows = lb_rows_of_words(m, k),
                    stride = 2 * lb_round_up(k, 2); /* rows of even length one after the other, as they came */
    return (lb_rows){.rows = rows, .stride = stride, .bytes = rows * stride + 64, .a = base};
}

static inline lb_rows lb_maddubs_w_rows_at(void *base, int32_t m, int32_t k) {
    const ptrdiff_t rows = lb_rows_of_words(m, k), stride = lb_odd_lines(lb_round_up(k, LB_NIBBLE_STEP));
    return (lb_rows){.rows = rows, .stride = stride, .bytes = rows * stride, .a = base};
}

static inline lb_rows lb_maddubs_u8_rows_at(void *base, int32_t m, int32_t k) {
    const ptrdiff_t rows = lb_block_rows(m, lb_round_up(k, LB_STEP) / 2), depth = lb_round_up(k, LB_NIBBLE_STEP);
    const ptrdiff_t stride = 64 * ((2 * depth / 64 + 1) | 1); /* zeros, and what is cut off: as much again at most */
    const ptrdiff_t loads = lb_round_up(depth, 64), sums = 4 * LB_PANEL * rows;
    const ptrdiff_t items = (ptrdiff_t)sizeof(lb_maddubs_u8_item) * (depth / 2 + 4 * (depth / LB_MADDUBS_U8_CHUNK + 1));
    const ptrdiff_t chunks = (ptrdiff_t)sizeof(lb_maddubs_u8_chunk) * (depth / LB_MADDUBS_U8_CHUNK + 1);
    uint8_t *end = (uint8_t *)base + rows * stride;
    return (lb_rows){.rows = rows,
                     .stride = stride,
                     .bytes = rows * stride + sums + loads + items + chunks,
                     .a = base,
                     .low = (uint8_t *)base + depth,
                     .acc = (int32_t *)(void *)end,
                     .loads = (uint16_t *)(void *)(end + sums),
                     .items = (lb_maddubs_u8_item *)(void *)(end + sums + loads),
                     .chunks = (lb_maddubs_u8_chunk *)(void *)(end + sums + loads + items)};
}

static inline lb_rows lb_maddubs_s8_rows_at(void *base, int32_t m, int32_t k) {
    const ptrdiff_t rows = lb_rows_of_words(m, k), tiles = (rows + LB_MADDUBS_S8_ROWS - 1) / LB_MADDUBS_S8_ROWS;
    const ptrdiff_t stride = lb_odd_lines(lb_maddubs_s8_most(k) + LB_MADDUBS_S8_ROWS * 8 * (ptrdiff_t)lb_maddubs_s8_rest_most(k));
    const ptrdiff_t staged = lb_round_up(k, 32) + 32, heads = tiles * (ptrdiff_t)sizeof(lb_maddubs_s8_head);
    uint8_t *end = (uint8_t *)base + tiles * stride;
    return (lb_rows){.rows = rows,
                     .stride = stride,
                     .bytes = tiles * stride + lb_round_up(LB_MADDUBS_S8_STAGED * staged + heads, 64),
                     .a = base,
                     .low = end,
                     .staged = staged,
                     .heads = (lb_maddubs_s8_head *)(void *)(end + LB_MADDUBS_S8_STAGED * staged),
                     .k = k};
}

static inline lb_rows lb_gemv_rows_at(void *base, int32_t m, int32_t k) {
    const ptrdiff_t block = lb_rows_of_words(m, k), rows = block > LB_GEMV_ROWS ? LB_GEMV_ROWS : block;
    const ptrdiff_t stride = lb_round_up(lb_gemv_bytes(k), 64);
    return (lb_rows){.rows = rows, .stride = stride, .bytes = rows * stride, .a = base};
}

enum { LB_STRASSEN_CHUNK = 512 }; /* of each half of k: 16 columns of them are half of a first-level cache */

/* Scratch of strassen_avx2.h. */
typedef struct {
    ptrdiff_t rows;   /* an even number */
    ptrdiff_t half;   /* of k, a multiple of LB_STEP */
    ptrdiff_t stride; /* elements from row to row of a factor */
    int16_t *a;       /* Strassen's seven factors of half as many rows */
    int16_t *b;       /* one factor of LB_STRASSEN_CHUNK of k and LB_PANEL columns */
    int32_t *sums;    /* for each pair of rows and quarter of the results what pairs of activations give */
    int32_t *shared;  /* two times half as many rows x LB_PANEL: sums that are in several quarters */
    int32_t *acc;     /* four times: what the quarters are so far */
    ptrdiff_t bytes;
} lb_strassen;

static inline lb_strassen lb_strassen_at(void *base, ptrdiff_t rows, int32_t k) {
    const ptrdiff_t even = lb_round_up(rows, 2), half = lb_round_up((k + 1) / 2, LB_STEP), stride = 32 * ((half / 32 + 1) | 1);
    const ptrdiff_t a = 7 * even * stride, b = 2 * LB_PANEL * LB_STRASSEN_CHUNK, sums = lb_round_up(8 * even, 64),
                    shared = 4 * LB_PANEL * even;
    uint8_t *at = base;
    return (lb_strassen){.rows = even,
                         .half = half,
                         .stride = stride,
                         .a = (int16_t *)(void *)at,
                         .b = (int16_t *)(void *)(at + a),
                         .sums = (int32_t *)(void *)(at + a + b),
                         .shared = (int32_t *)(void *)(at + a + b + sums),
                         .acc = (int32_t *)(void *)(at + a + b + sums + shared),
                         .bytes = a + b + sums + 3 * shared};
}

/* The most bytes of scratch that any method takes. */
static inline ptrdiff_t lb_rows_bytes(int32_t m, int32_t k) {
    static lb_rows_fn *const each[] = {lb_madd16_rows_at,     lb_plain_rows_at,      lb_maddubs_w_rows_at,
                                       lb_maddubs_u8_rows_at, lb_maddubs_s8_rows_at, lb_gemv_rows_at};
    ptrdiff_t most = lb_strassen_at(0, lb_maddubs_s8_rows_at(0, m, k).rows, k).bytes;
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        const ptrdiff_t bytes = each[i](0, m, k).bytes;
        most = bytes > most ? bytes : most;
    }
    return most;
}

#endif
