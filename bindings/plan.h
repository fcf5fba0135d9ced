/* A plan: kernel calls in order on one arena, made once and run often, by several callers at once if need be. No Python in here. */
#ifndef LB_PLAN_H
#define LB_PLAN_H

#include "base/kernel_table.h"

#include <stddef.h>
#include <stdint.h>

enum { LB_PLAN_MAX_ARGS = 16, LB_PLAN_MAX_PARAMS = 256 };

/* Where an argument of a step is: at `offset` bytes of the arena, a constant, an input, an output, or the scratch of the thread. */
typedef enum { LB_IN_ARENA, LB_IN_CONSTANT, LB_IN_INPUT, LB_IN_OUTPUT, LB_IN_SCRATCH, LB_PLACES } lb_place;

typedef struct {
    lb_place place;
    int index; /* of the input or output */
    ptrdiff_t offset;
    void *constant;
} lb_plan_arg;

typedef struct {
    _Alignas(16) char params[LB_PLAN_MAX_PARAMS];
    lb_call_fn *call;
    int arg_count;
    int32_t items;
    int32_t chunks; /* 1 ... items: into how many parts the items are split at most */
    /* Not 0: an elementwise step that is fused to the one before (or to the one that that is fused to): so many of its items are done after
     * each item of it, while what was made is in the caches. It reads nothing else that step makes, and that step nothing that it writes.
     */
    int32_t fused_items;
    int followers; /* how many such steps are behind this one; lb_plan_new counts them */
    lb_plan_arg args[LB_PLAN_MAX_ARGS];
} lb_plan_step;

typedef struct lb_plan lb_plan;

/* Owns `steps` (from malloc) from now on; NULL if there is no memory, and the caller still owns them. */
lb_plan *lb_plan_new(lb_plan_step *steps, int count, size_t arena_bytes, size_t scratch_bytes, int threads);
void lb_plan_free(lb_plan *plan);

/* Runs all steps; `times` (or NULL) gets the nanoseconds of each. 0, or -1 if there is no memory for the arena. */
int lb_plan_run(lb_plan *plan, void *const *inputs, void *const *outputs, int64_t *times);

#endif
