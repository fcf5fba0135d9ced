/* Runs the network on inputs whose outputs are known, each twice, and compares every bit. Exit code 0: all are equal. */
#include "model.h"

#include <stdio.h>
#include <string.h>

enum { VECTORS = 1 };

static const int8_t known_in[VECTORS][32] = {
    {
    89, 35, 2, -59, -50, -118, -109, -124, -84, 80, 38, 105, 0, 27, 120, 58, 33, 11, 15, 111, -57, 80, 43, -128, -28, 91, 13, -120,
    67, 58, 88, -84}};

static const int8_t known_out[VECTORS][12] = {
    {
    16, 23, 23, 11, 44, 62, 11, 48, 66, 23, 103, 66}};

int main(void) {
    int wrong = 0;
    for (int i = 0; i < 2 * VECTORS; i++) {
        const int v = i % VECTORS;
        memcpy(MODEL_IN(model_arena()), known_in[v], MODEL_IN_BYTES);
        model_run();
        wrong += memcmp(MODEL_OUT(model_arena()), known_out[v], MODEL_OUT_BYTES) != 0;
    }
    printf("model: %d of %d outputs differ; arena %d bytes\n", wrong, 2 * VECTORS * 1, MODEL_ARENA_BYTES);
    return wrong != 0;
}
