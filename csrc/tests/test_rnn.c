/* Recurrent layers, every instruction set against `ref`: sizes around the panels, both directions, layouts, steps one by one and all at
 * once, extremes. */
#include "test_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

lb_lstm_s8_fn lb_lstm_s8__ref;
lb_gru_s8_fn lb_gru_s8__ref;

#ifdef __linux__
enum { MAX_BATCH = 7 };
#else
enum { MAX_BATCH = 3 }; /* boards have room for no more */
#endif
enum { MAX_HIDDEN = 70, MAX_INPUTS = 37, MAX_ROWS = 2 * 4 * MAX_HIDDEN, MAX_TIME = 4, STATES = 2 * MAX_BATCH * MAX_HIDDEN };

static float px[MAX_TIME * MAX_BATCH * MAX_ROWS], bias[MAX_ROWS], r_scale[MAX_ROWS], r_bias[MAX_ROWS], w_scale[MAX_ROWS];
static float x_scale[MAX_TIME * MAX_BATCH];
static int8_t weights[MAX_ROWS * MAX_HIDDEN];
static int8_t x[MAX_TIME * MAX_BATCH * MAX_INPUTS], w[MAX_ROWS * MAX_INPUTS];
static int16_t table[513];
static _Alignas(64) unsigned char packed[MAX_ROWS * 4 * (MAX_HIDDEN + 64)], scratch[MAX_BATCH * 40 * 128];
static float states[2][STATES]; /* h0 and c0 of any type */

static float real(float most) {
    return most * (float)random_int(-1000, 1000) / 1000.0f;
}

static lb_lstm_s8_params geometry(int32_t gates, int dynamic) {
    static const int32_t sizes[] = {1, 3, 8, 15, 16, 17, 31, 33, 48, 70};
    lb_lstm_s8_params p = {.time = random_int(1, MAX_TIME), .batch = random_int(0, MAX_BATCH), .hidden = sizes[random_int(0, 9)]};
    p.directions = random_int(1, 2), p.reverse = p.directions == 1 && random_int(0, 1);
    p.linear_before_reset = random_int(0, 1);
    if (random_int(0, 1)) /* time, batch */
        p.x_time = p.batch, p.x_batch = 1, p.y_time = p.directions * p.batch * p.hidden, p.y_direction = p.batch * p.hidden,
        p.y_batch = p.hidden, p.s_direction = p.batch * p.hidden, p.s_batch = p.hidden;
    else
        p.x_time = 1, p.x_batch = p.time, p.y_time = p.directions * p.hidden, p.y_direction = p.hidden,
        p.y_batch = p.time * p.directions * p.hidden, p.s_direction = p.hidden, p.s_batch = p.directions * p.hidden;
    p.lo = random_int(-128, 0), p.hi = random_int(0, 127);
    if (random_int(0, 1))
        p.lo = -128, p.hi = 127;
    p.h_zero = dynamic ? 0 : random_int(p.lo, p.hi);
    p.state_bits = random_int(0, 15), p.state_given = random_int(0, 1);
    p.h_multiplier = ldexpf((float)random_int(50, 3000), gates == 4 ? -3 : -(p.state_bits + 4));
    p.reset_multiplier = ldexpf((float)random_int(50, 3000), -(p.state_bits + 19));
    p.state_multiplier = ldexpf((float)random_int(500, 1500), p.state_bits - 16);
    const int32_t rows = p.directions * gates * p.hidden;
    const int extremes = random_int(0, 3) == 0;
    for (int32_t i = 0; i < rows; i++)
        bias[i] = real(2), r_bias[i] = real(2), r_scale[i] = 0.0005f * (float)random_int(1, 20),
        w_scale[i] = 0.01f * (float)random_int(1, 20);
    for (int32_t i = 0; i < rows * p.hidden; i++)
        weights[i] = (int8_t)(extremes ? (random_u32() & 1 ? 127 : -128) : random_int(-128, 127));
    for (int32_t i = 0; i < p.time * p.batch * rows; i++)
        px[i] = dynamic ? (float)random_int(-20000, 20000) : extremes && random_int(0, 9) == 0 ? real(1e30f) : real(6);
    if (extremes)
        px[0] = NAN;
    for (int32_t i = 0; i < p.time * p.batch; i++)
        x_scale[i] = 0.001f * (float)random_int(1, 20);
    for (int i = 0; i < 513; i++)
        table[i] = (int16_t)random_int(-32768, 32767); /* any table is interpolated alike */
    for (int i = 0; i < 2; i++)
        for (int32_t j = 0; j < STATES; j++) {
            if (dynamic || (i == 1 && gates == 4)) /* cells are reals in all */
                states[i][j] = i == 0 ? real(1) : random_int(0, 99) ? real(random_int(0, 1) ? 2.0f : 300.0f) : 1e30f;
            else
                ((int32_t *)states[i])[j] = (int32_t)random_u32();
        }
    return p;
}

/* Panels of the gates first ... first + count - 1 of every unit: 16 of them, after the sums of weights. */
static unsigned char *pack_sums(const lb_lstm_s8_params *p, unsigned char *to, int32_t direction, int32_t gates, int32_t first,
                                int32_t count) {
    const int32_t n = p->hidden, depth = (n + 15) / 16 * 16;
    int32_t *sums = (int32_t *)(void *)to;
    memset(sums, 0, 4 * (size_t)(depth * count));
    to += 4 * depth * count;
    for (int32_t unit = 0; unit < depth; unit += 16)
        for (int32_t k = 0; k < depth; k += 4)
            for (int32_t i = 0; i < count * 64; i++) {
                const int32_t own = unit + i / 4 % 16, row = (direction * gates + first + i / 64) * n + own, at = k + i % 4;
                const int8_t weight = own < n && at < n ? weights[row * n + at] : 0;
                *to++ = (unsigned char)weight;
                sums[unit * count + i / 4] += weight;
            }
    return to;
}

/* The same for AVX2: eight units, plus 128. */
static unsigned char *pack_gates(const lb_lstm_s8_params *p, unsigned char *to, int32_t direction, int32_t gates, int32_t first,
                                 int32_t count) {
    const int32_t n = p->hidden, depth = (n + 15) / 16 * 16;
    for (int32_t unit = 0; unit < depth; unit += 8)
        for (int32_t k = 0; k < depth; k += 4)
            for (int32_t i = 0; i < count * 32; i++) {
                const int32_t own = unit + i / 4 % 8, row = (direction * gates + first + i / 32) * n + own, at = k + i % 4;
                *to++ = (unsigned char)((own < n && at < n ? weights[row * n + at] : 0) + 128);
            }
    return to;
}

/* Panels of words, (k / 2, gates, units, 2), of the weights in `packed`. */
static int16_t *pack_words(const lb_lstm_s8_params *p, int16_t *to, int32_t direction, int32_t gates, int32_t first, int32_t count,
                           int32_t units) {
    const int16_t *from = (const int16_t *)(const void *)packed;
    const int32_t n = p->hidden, depth = (n + 15) / 16 * 16;
    for (int32_t unit = 0; unit < depth; unit += units)
        for (int32_t k = 0; k < depth; k += 2)
            for (int32_t i = 0; i < count * units * 2; i++) {
                const int32_t own = unit + i / 2 % units, row = (direction * gates + first + i / (2 * units)) * n + own, at = k + i % 2;
                *to++ = own < n && at < n ? from[row * n + at] : 0;
            }
    return to;
}

enum { WORDS = 1 << 17 }; /* where panels of words stand, after the weights that they are made of */

static void pack_wide(const lb_lstm_s8_params *p, int32_t gates, int split, int vnni) {
    int16_t *to = (int16_t *)(void *)(packed + WORDS);
    for (int32_t d = 0; d < p->directions; d++) {
        to = pack_words(p, to, d, gates, 0, split ? gates - 1 : gates, vnni ? 16 : 8);
        if (split)
            to = pack_words(p, to, d, gates, gates - 1, 1, vnni ? 16 : 8);
    }
}

static void pack(const lb_lstm_s8_params *p, int32_t gates, int split, int vnni) {
    unsigned char *to = packed;
    for (int32_t d = 0; d < p->directions; d++) {
        to = (vnni ? pack_sums : pack_gates)(p, to, d, gates, 0, split ? gates - 1 : gates);
        if (split)
            to = (vnni ? pack_sums : pack_gates)(p, to, d, gates, gates - 1, 1);
    }
}

/* All outputs, one after the other: y, then `count` states of `size` elements; `wide` bytes an element. Runs all steps, at once or
 * one by one in parts. args has NULL where outputs go, from `first` on. */
static void run(const lb_kernel *k, lb_lstm_s8_params p, void **args, int first, int outputs, const size_t *bytes, unsigned char *out,
                int whole) {
    for (int i = 0; i < outputs; i++)
        args[first + i] = out, out += (bytes[i] + 63) / 64 * 64;
    args[first + outputs] = scratch;
    if (whole) {
        p.first = 0, p.steps = p.time, p.block = (p.hidden + 15) / 16 * 16;
        k->call(&p, args, 0, p.directions);
        return;
    }
    p.steps = 1, p.block = 16;
    for (p.first = 0; p.first < p.time; p.first++) {
        const int32_t items = p.directions * ((p.hidden + 15) / 16), cut = random_int(0, items);
        k->call(&p, args, cut, items);
        k->call(&p, args, 0, cut);
    }
}

/* 16 bits: weights of all of them in `packed`, and states. Weights of 8 bits have sums within int32. */
static void widen(lb_lstm_s8_params *p, int32_t gates) {
    const int32_t rows = p->directions * gates * p->hidden;
    const int extremes = random_int(0, 3) == 0;
    int16_t *to = (int16_t *)(void *)packed;
    p->sums_fit = random_int(0, 1);
    const int32_t least = p->sums_fit ? -128 : -32768, most = -least - 1;
    for (int32_t i = 0; i < rows * p->hidden; i++)
        to[i] = (int16_t)(extremes ? (random_u32() & 1 ? most : least) : random_int(least, most));
    for (int32_t i = 0; i < rows; i++)
        r_scale[i] *= p->sums_fit ? 0x1p-8f : 0x1p-16f;
    for (int32_t i = 0; extremes && i < STATES; i++)
        ((int32_t *)states[0])[i] = (int32_t)0x80008000u;
    p->lo = random_int(-32768, 0), p->hi = random_int(0, 32767), p->h_zero = random_int(0, 1) ? random_int(p->lo, p->hi) : 0;
    p->h_multiplier *= 256, p->reset_multiplier *= 256, p->state_multiplier *= 0x1p-8f;
}

static void test(const lb_kernel *ref, const lb_kernel *k, int32_t gates, int dynamic, int wide) {
    static _Alignas(64) unsigned char want[1 << 17], got[1 << 17];
    const int plain = strcmp(k->isa->name, "ref") == 0 || strcmp(k->isa->name, "armdsp") == 0 || strcmp(k->isa->name, "mve") == 0;
    for (int round = 0; round < 300; round++) {
        lb_lstm_s8_params p = geometry(gates, dynamic);
        const int together = gates == 3 && !p.linear_before_reset;
        const size_t element = dynamic ? 4 : wide ? 2 : 1, state = (size_t)(p.directions * p.batch * p.hidden);
        const size_t bytes[3] = {element * state * (size_t)p.time, element * state, (dynamic || gates == 4 ? 4 : 2) * state};
        const int outputs = gates == 3 && dynamic ? 2 : 3;
        const int vnni = strcmp(k->isa->name, "avx512vnni") == 0;
        if (wide)
            widen(&p, gates);
        if (!plain)
            (wide ? pack_wide : pack)(&p, gates, together, vnni);
        void *args[16];
        int n = 0;
        args[n++] = px;
        if (dynamic)
            args[n++] = x_scale, args[n++] = w_scale;
        args[n++] = bias;
        const int r = n++;
        args[n++] = r_scale;
        if (gates == 3)
            args[n++] = r_bias;
        if (!dynamic)
            args[n++] = table;
        args[n++] = states[0];
        if (gates == 4)
            args[n++] = states[1];
        for (size_t i = 0; i < sizeof want; i++) /* also the state that a GRU may find */
            want[i] = got[i] = (unsigned char)((i * 40503u + (size_t)round) >> 5);
        args[r] = wide ? (void *)packed : weights;
        run(ref, p, args, n, outputs, bytes, want, 1);
        args[r] = !plain ? packed + (wide ? WORDS : 0) : wide ? (void *)packed : weights;
        run(k, p, args, n, outputs, bytes, got, together || round % 2);
        expect_equal(k, want, got, sizeof want, 0);
    }
}

TESTED_WITH(lstm_s8, test, 4, 0, 0)
TESTED_WITH(lstm_s16, test, 4, 0, 1)
TESTED_WITH(lstm_rows_s8, test, 4, 1, 0)
TESTED_WITH(gru_s8, test, 3, 0, 0)
TESTED_WITH(gru_s16, test, 3, 0, 1)
TESTED_WITH(gru_rows_s8, test, 3, 1, 0)

/* Inputs, their weights, and px as the contract makes it of them. */
static void products(lb_lstm_s8_params *p, int32_t gates) {
    const int32_t rows = p->directions * gates * p->hidden;
    p->inputs = random_int(0, MAX_INPUTS), p->x_zero = random_int(-128, 127);
    for (int32_t i = 0; i < p->time * p->batch * p->inputs; i++)
        x[i] = (int8_t)random_int(-128, 127);
    for (int32_t i = 0; i < rows * p->inputs; i++)
        w[i] = (int8_t)random_int(-128, 127);
    for (int32_t i = 0; i < rows; i++)
        w_scale[i] *= 0.01f;
    for (int32_t i = 0; i < p->time * p->batch; i++)
        for (int32_t j = 0; j < rows; j++) {
            int32_t sum = 0;
            for (int32_t k = 0; k < p->inputs; k++)
                sum += (x[i * p->inputs + k] - p->x_zero) * w[j * p->inputs + k];
            px[i * rows + j] = (float)sum * w_scale[j];
        }
}

/* What lstm_s8 and gru_s8 make of px. */
static void test_from_x(const lb_kernel *k, int32_t gates) {
    static _Alignas(64) unsigned char want[1 << 17], got[1 << 17];
    for (int round = 0; round < 300; round++) {
        lb_lstm_s8_params p = geometry(gates, 0);
        products(&p, gates);
        const size_t state = (size_t)(p.directions * p.batch * p.hidden),
                     bytes[3] = {state * (size_t)p.time, state, (gates == 4 ? 4 : 2) * state};
        void *args[16] = {x, w, w_scale, bias, weights, r_scale};
        int n = 6;
        if (gates == 3)
            args[n++] = r_bias;
        args[n++] = table, args[n++] = states[0];
        if (gates == 4)
            args[n++] = states[1];
        for (size_t i = 0; i < sizeof want; i++)
            want[i] = got[i] = (unsigned char)((i * 40503u + (size_t)round) >> 5);
        run(k, p, args, n, 3, bytes, got, (gates == 3 && !p.linear_before_reset) || round % 2);
        p.first = 0, p.steps = p.time, p.block = (p.hidden + 15) / 16 * 16;
        unsigned char *y = want, *h = y + (bytes[0] + 63) / 64 * 64, *c = h + (bytes[1] + 63) / 64 * 64;
        if (gates == 4)
            lb_lstm_s8__ref(&p, px, bias, weights, r_scale, table, (int8_t *)states[0], states[1], (int8_t *)y, (int8_t *)h,
                            (float *)(void *)c, scratch, 0, p.directions);
        else
            lb_gru_s8__ref(&p, px, bias, weights, r_scale, r_bias, table, (int8_t *)states[0], (int8_t *)y, (int8_t *)h,
                           (int16_t *)(void *)c, scratch, 0, p.directions);
        expect_equal(k, want, got, sizeof want, 0);
    }
}

KERNEL_TEST(lstm_x_s8) {
    (void)ref;
    test_from_x(k, 4);
}

KERNEL_TEST(gru_x_s8) {
    (void)ref;
    test_from_x(k, 3);
}
