/* Chains of products give the sums that their contract names, so that each product was made. */
#include "test_support.h"

KERNEL_TEST(peak_s16) {
    int16_t x[16], w[16];
    int32_t out[96];
    for (int32_t rounds = 0; rounds < 9; rounds += 4) {
        for (int i = 0; i < 16; i++)
            x[i] = (int16_t)random_int(-32768, 32767), w[i] = (int16_t)random_int(-32768, 32767);
        const lb_peak_s16_params p = {.rounds = rounds};
        void *args[] = {x, w, out};
        expect_same(ref, k, &p, args, 2, sizeof out, 0, 0);
    }
}

KERNEL_TEST(peak_s8) {
    uint8_t x[64];
    int8_t w[64];
    int32_t out[192];
    for (int32_t rounds = 0; rounds < 9; rounds += 4) {
        for (int i = 0; i < 64; i++)
            x[i] = (uint8_t)random_int(0, 255), w[i] = (int8_t)random_int(-128, 127);
        const lb_peak_s8_params p = {.rounds = rounds};
        void *args[] = {x, w, out};
        expect_same(ref, k, &p, args, 2, sizeof out, 0, 0);
    }
}

KERNEL_TEST(peak_f32) {
    float x[8], w[8], out[96];
    for (int32_t rounds = 0; rounds < 9; rounds += 4) {
        for (int i = 0; i < 8; i++)
            x[i] = (float)random_int(-100, 100), w[i] = (float)random_int(-100, 100);
        const lb_peak_f32_params p = {.rounds = rounds};
        void *args[] = {x, w, out};
        expect_same(ref, k, &p, args, 2, sizeof out, 0, 0);
    }
}
