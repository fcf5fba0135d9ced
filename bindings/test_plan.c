/* Plans and the pool from several threads at once: every part is done once, in order, on memory of its own. Made for the thread sanitizer;
 * no Python, no kernels but the ones below. */
#include "plan.h"
#include "pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = 96, STEPS = 5, CALLERS = 4, RUNS = 60 };

static atomic_int failures;

static void expect(int ok, const char *claim) {
    if (!ok && atomic_fetch_add(&failures, 1) < 10)
        printf("FAIL %s\n", claim);
}

/* out[i] = in[i] + the neighbours of in[i] + params[0]: a step that reads what other threads wrote in the step before. The scratch is
 * written and read, so that two threads that share one are found. */
static void blur(const void *params, void *const *args, int32_t begin, int32_t end) {
    int32_t more;
    memcpy(&more, params, sizeof more);
    const int32_t *in = args[0];
    int32_t *out = args[1], *scratch = args[2];
    for (int32_t i = begin; i < end; i++) {
        scratch[0] = in[i] + in[(i + 1) % ITEMS] + in[(i + ITEMS - 1) % ITEMS];
        scratch[1] = more;
        out[i] = (int32_t)((uint32_t)scratch[0] * 3u + (uint32_t)scratch[1]);
    }
}

/* out[i] = 5 in[i] + params[0] */
static void each(const void *params, void *const *args, int32_t begin, int32_t end) {
    int32_t more;
    memcpy(&more, params, sizeof more);
    const int32_t *in = args[0];
    int32_t *out = args[1];
    for (int32_t i = begin; i < end; i++)
        out[i] = (int32_t)((uint32_t)in[i] * 5u + (uint32_t)more);
}

/* input -> arena -> arena -> ... -> output. `followed`: every other step does one element in place, and follows the one before. */
static lb_plan *make_plan(int threads, int chunks, int followed) {
    lb_plan_step *steps = calloc(STEPS, sizeof *steps);
    if (!steps)
        abort();
    const size_t bytes = ITEMS * sizeof(int32_t);
    for (int s = 0; s < STEPS; s++) {
        const int32_t more = 7 * s + 1;
        memcpy(steps[s].params, &more, sizeof more);
        steps[s].call = followed && s % 2 ? each : blur;
        steps[s].fused_items = followed && s % 2;
        steps[s].arg_count = 3;
        steps[s].items = ITEMS;
        steps[s].chunks = chunks;
        const ptrdiff_t from = (ptrdiff_t)bytes * ((followed ? (s - 1) / 2 : s - 1) % 2),
                        to = (ptrdiff_t)bytes * ((followed ? s / 2 : s) % 2);
        steps[s].args[0] = (lb_plan_arg){s ? LB_IN_ARENA : LB_IN_INPUT, 0, s ? from : 0, NULL};
        steps[s].args[1] = (lb_plan_arg){s + 1 < STEPS ? LB_IN_ARENA : LB_IN_OUTPUT, 0, s + 1 < STEPS ? to : 0, NULL};
        steps[s].args[2] = (lb_plan_arg){LB_IN_SCRATCH, 0, 0, NULL};
    }
    lb_plan *plan = lb_plan_new(steps, STEPS, 2 * bytes, 64, threads);
    if (!plan)
        abort();
    return plan;
}

static void expected(const int32_t *in, int32_t *out, int followed) {
    int32_t from[ITEMS], scratch[2];
    memcpy(from, in, sizeof from);
    for (int32_t s = 0; s < STEPS; s++) {
        const int32_t more = 7 * s + 1;
        void *args[] = {from, out, scratch};
        (followed && s % 2 ? each : blur)(&more, args, 0, ITEMS);
        memcpy(from, out, sizeof from);
    }
}

typedef struct {
    lb_plan *plan;
    int32_t seed;
    int followed;
} caller;

static void *call_often(void *context) {
    const caller *c = context;
    int32_t in[ITEMS], want[ITEMS], got[ITEMS];
    for (int run = 0; run < RUNS; run++) {
        for (int32_t i = 0; i < ITEMS; i++)
            in[i] = c->seed * 131 + run * 17 + i;
        expected(in, want, c->followed);
        memset(got, 0xA5, sizeof got);
        void *inputs[] = {in}, *outputs[] = {got};
        int64_t times[STEPS];
        expect(lb_plan_run(c->plan, inputs, outputs, run % 8 == 0 ? times : NULL) == 0, "a plan runs");
        expect(memcmp(want, got, sizeof want) == 0, "a plan gives the same from every thread");
    }
    return NULL;
}

static void count(int index, void *context) {
    atomic_fetch_add(&((atomic_int *)context)[index], 1);
}

static void *jobs(void *unused) {
    (void)unused;
    for (int run = 0; run < RUNS; run++) {
        atomic_int done[13];
        for (int i = 0; i < 13; i++)
            atomic_init(&done[i], 0);
        lb_pool_run(13, 1 + run % 4, count, done);
        for (int i = 0; i < 13; i++)
            expect(atomic_load(&done[i]) == 1, "each job is done once");
    }
    return NULL;
}

int main(void) {
    static const int chunks[] = {1, 3, 8}; /* fewer than threads, and as many for each of them or not */
    for (int threads = 1; threads <= 4; threads++)
        for (int c = 0; c < 6; c++) {
            lb_plan *plan = make_plan(threads, chunks[c % 3], c / 3);
            pthread_t ids[CALLERS + 1];
            caller callers[CALLERS];
            int started = 0;
            for (int i = 0; i < CALLERS; i++) {
                callers[i] = (caller){plan, i, c / 3};
                started += pthread_create(&ids[started], NULL, call_often, &callers[i]) == 0;
            }
            started += pthread_create(&ids[started], NULL, jobs, NULL) == 0;
            expect(started == CALLERS + 1, "threads start");
            for (int i = 0; i < started; i++)
                pthread_join(ids[i], NULL);
            lb_plan_free(plan);
        }
    printf("%s: %d plans by %d threads, %d runs each\n", failures ? "FAILED" : "ok", 24, CALLERS, RUNS);
    return failures != 0;
}
