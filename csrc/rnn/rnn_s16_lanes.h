/* Recurrent products of 16-bit states with panels of LB_UNITS units: (k / 2, gates, LB_UNITS, 2) words, k is hidden rounded up to 16.
 * Behind rnn_avx2.h or rnn_avx512vnni.h, whose products of bytes these replace, and with the words of that width (lb_pairs_*).
 *
 * Where sums fit int32 they are taken modulo 2^32: no order of additions matters. Else a state is halved, h = 256 u + l with 0 <= l < 256:
 * sums of two products are then within 2^24 whatever the weights are, and 64 of them within int32, after which they go on in int64. */
#ifndef LB_RNN_S16_LANES_H
#define LB_RNN_S16_LANES_H

typedef int16_t lb_hidden;
typedef int32_t __attribute__((may_alias)) lb_pair;

enum { LB_PAIRS_CHUNK = 64 };

static inline ptrdiff_t lb_words_of(int32_t hidden) {
    return ((ptrdiff_t)hidden + 15) / 16 * 16;
}

/* Bytes of all panels of so many gates. */
static inline ptrdiff_t lb_weight_bytes_s16(int32_t hidden, int gates) {
    return 2 * gates * lb_words_of(hidden) * lb_words_of(hidden);
}

/* row.form = the state; behind it is what weights of zero meet. */
static inline void lb_rnn_form_s16(const lb_rnn_row *row, const int16_t *state, int32_t hidden, int32_t zero, int gates) {
    (void)zero, (void)gates;
    int16_t *form = (int16_t *)(void *)row->form;
    memcpy(form, state, 2 * (size_t)hidden);
    memset(form + hidden, 0, 2 * (size_t)(lb_words_of(hidden) - hidden));
}

/* fl32 of the sums of a panel, modulo 2^32. `zeroed`: the zero point is 0. */
LB_INLINE void lb_s16_narrow(const int gates, const int zeroed, const int16_t *w, const int16_t *h, ptrdiff_t pairs, int32_t zero,
                             float *sums) {
    enum { CHAINS = 2 };
    lb_ints c[CHAINS][4], of_weights[4];
    LB_UNROLL
    for (int g = 0; g < gates; g++)
        c[0][g] = c[1][g] = of_weights[g] = lb_ints_all(0);
    for (ptrdiff_t i = 0; i < pairs; i += CHAINS) {
        LB_UNROLL
        for (int j = 0; j < CHAINS; j++) {
            const lb_ints x = lb_ints_all(*(const lb_pair *)(const void *)(h + 2 * (i + j)));
            LB_UNROLL
            for (int g = 0; g < gates; g++, w += 2 * LB_UNITS) {
                const lb_ints v = lb_pairs_read(w);
                c[j][g] = lb_pairs_add(c[j][g], x, v);
                if (!zeroed)
                    of_weights[g] = lb_pairs_add(of_weights[g], lb_ints_all(0x00010001), v);
            }
        }
    }
    LB_UNROLL
    for (int g = 0; g < gates; g++) {
        lb_ints total = lb_ints_add(c[0][g], c[1][g]);
        if (!zeroed)
            total = lb_ints_sub(total, lb_ints_mul(of_weights[g], lb_ints_all(zero)));
        lb_reals_store(sums + g * LB_UNITS, lb_reals_of(total));
    }
}

/* The same in int64. */
LB_INLINE void lb_s16_wide(const int gates, const int16_t *w, const int16_t *h, ptrdiff_t pairs, int32_t zero, float *sums) {
    int64_t total[4 * LB_UNITS] = {0};
    _Alignas(64) int32_t part[3][LB_UNITS];
    for (ptrdiff_t first = 0; first < pairs; first += LB_PAIRS_CHUNK) {
        const ptrdiff_t last = pairs - first < LB_PAIRS_CHUNK ? pairs : first + LB_PAIRS_CHUNK;
        lb_ints above[4], below[4], of_weights[4];
        LB_UNROLL
        for (int g = 0; g < gates; g++)
            above[g] = below[g] = of_weights[g] = lb_ints_all(0);
        for (ptrdiff_t i = first; i < last; i++) {
            const lb_ints x = lb_ints_all(*(const lb_pair *)(const void *)(h + 2 * i));
            const lb_ints u = lb_pairs_upper(x), l = lb_pairs_lower(x);
            LB_UNROLL
            for (int g = 0; g < gates; g++, w += 2 * LB_UNITS) {
                const lb_ints v = lb_pairs_read(w);
                above[g] = lb_pairs_add(above[g], u, v);
                below[g] = lb_pairs_add(below[g], l, v);
                of_weights[g] = lb_pairs_add(of_weights[g], lb_ints_all(0x00010001), v);
            }
        }
        for (int g = 0; g < gates; g++) {
            lb_ints_store(part[0], above[g]), lb_ints_store(part[1], below[g]), lb_ints_store(part[2], of_weights[g]);
            for (int i = 0; i < LB_UNITS; i++)
                total[g * LB_UNITS + i] += 256 * (int64_t)part[0][i] + part[1][i] - zero * (int64_t)part[2][i];
        }
    }
    for (int i = 0; i < gates * LB_UNITS; i++)
        sums[i] = (float)total[i];
}

/* The sums of an item's units and all rows of the batch, as reals. Weights are read in turn forwards and backwards. */
LB_INLINE void lb_rnn_products_s16(const int gates, const lb_lstm_s16_params *p, const char *panels, const lb_units *u, int32_t step,
                                   void *scratch) {
    const ptrdiff_t words = lb_words_of(p->hidden), pairs = words / 2;
    const int32_t first = u->first / LB_UNITS, count = (u->last + LB_UNITS - 1) / LB_UNITS - first;
    for (int32_t turn = 0; turn < count; turn++) {
        const int32_t panel = step % 2 ? first + count - 1 - turn : first + turn;
        const int16_t *w = (const int16_t *)(const void *)panels + panel * gates * LB_UNITS * words;
        for (int32_t b = 0; b < p->batch; b++) {
            const lb_rnn_row row = lb_rnn_row_at(scratch, p->hidden, b);
            const int16_t *h = (const int16_t *)(const void *)row.form;
            float *sums = (float *)(void *)row.sums + panel * gates * LB_UNITS;
            if (!p->sums_fit)
                lb_s16_wide(gates, w, h, pairs, p->h_zero, sums);
            else if (p->h_zero == 0)
                lb_s16_narrow(gates, 1, w, h, pairs, 0, sums);
            else
                lb_s16_narrow(gates, 0, w, h, pairs, p->h_zero, sums);
        }
    }
}

/* The sum times its scale, for one of the `gates` of panels. */
LB_INLINE lb_reals lb_scaled_s16(const lb_lanes *u, const int32_t *sums, int gates, int gate, lb_reals scale) {
    return lb_reals_mul(lb_reals_load((const float *)(const void *)sums + u->first * gates + gate * LB_UNITS), scale);
}

#define lb_rnn_form lb_rnn_form_s16
#define lb_rnn_products lb_rnn_products_s16
#define lb_weight_bytes lb_weight_bytes_s16
#define lb_scaled lb_scaled_s16
#define lb_read_hidden lb_read_words
#define lb_write_hidden lb_write_words

#endif
