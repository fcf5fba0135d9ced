#define _GNU_SOURCE
#include "plan.h"
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LINE = 64, SPINS = 4096, MOST_SHARES = 16, MOST_PARTS = 1 << 20 };

/* How far a share of a step is: neighbouring parts that one thread begins with, the same share in every step, so that it finds in its own
 * caches what it left there. A line for each: threads meet where one waits for another, or helps it, and nowhere else. */
typedef struct {
    _Alignas(LINE) atomic_int next; /* the first part that nobody has begun, counted from the share's first */
    atomic_int done;                /* how many parts have ended */
} progress;

/* The memory of one call: progress of each share of each step, the arena, a scratch for each thread. Kept for the next call. */
typedef struct workspace {
    struct workspace *next;
    progress *shares;
    char *arena;
    char *scratch;
} workspace;

struct lb_plan {
    lb_plan_step *steps;
    int count, threads, shares; /* of a step, as many as there are parts of it at most */
    size_t arena_bytes, scratch_bytes;
    pthread_mutex_t lock; /* guards `free` */
    workspace *free;
};

typedef struct {
    const lb_plan *plan;
    workspace *memory;
    void *const *inputs, *const *outputs;
    int64_t *times;
} call;

static size_t lines(size_t bytes) {
    return (bytes + LINE - 1) / LINE * LINE;
}

lb_plan *lb_plan_new(lb_plan_step *steps, int count, size_t arena_bytes, size_t scratch_bytes, int threads) {
    lb_plan *plan = malloc(sizeof *plan);
    if (!plan)
        return NULL;
    *plan = (lb_plan){.steps = steps,
                      .count = count,
                      .threads = threads < 1 ? 1 : threads,
                      .arena_bytes = lines(arena_bytes),
                      .scratch_bytes = lines(scratch_bytes)};
    int split = 0;
    for (int i = count - 1; i >= 0; i--) {
        steps[i].followers = i + 1 < count && steps[i + 1].fused_items ? steps[i + 1].followers + 1 : 0;
        split |= steps[i].chunks > 1;
        steps[i].chunks = steps[i].chunks < MOST_PARTS ? steps[i].chunks : MOST_PARTS;
    }
    if (!split)
        plan->threads = 1;
    plan->shares = plan->threads < MOST_SHARES ? plan->threads : MOST_SHARES;
    pthread_mutex_init(&plan->lock, NULL);
    return plan;
}

void lb_plan_free(lb_plan *plan) {
    for (workspace *w = plan->free; w;) {
        workspace *next = w->next;
        free(w);
        w = next;
    }
    pthread_mutex_destroy(&plan->lock);
    free(plan->steps);
    free(plan);
}

static workspace *take(lb_plan *plan) {
    pthread_mutex_lock(&plan->lock);
    workspace *w = plan->free;
    if (w)
        plan->free = w->next;
    pthread_mutex_unlock(&plan->lock);
    if (w)
        return w;
    const size_t head = lines(sizeof *w), counters = sizeof(progress) * (size_t)plan->shares * (size_t)plan->count;
    char *block = aligned_alloc(LINE, head + counters + plan->arena_bytes + plan->scratch_bytes * (size_t)plan->threads);
    if (!block)
        return NULL;
    w = (workspace *)(void *)block;
    *w = (workspace){NULL, (progress *)(void *)(block + head), block + head + counters, block + head + counters + plan->arena_bytes};
    return w;
}

static void give_back(lb_plan *plan, workspace *w) {
    pthread_mutex_lock(&plan->lock);
    w->next = plan->free;
    plan->free = w;
    pthread_mutex_unlock(&plan->lock);
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void resolve(const call *c, const lb_plan_step *step, int worker, void **args) {
    for (int i = 0; i < step->arg_count; i++) {
        const lb_plan_arg *a = &step->args[i];
        switch (a->place) {
        case LB_IN_ARENA:
            args[i] = c->memory->arena + a->offset;
            break;
        case LB_IN_INPUT:
            args[i] = (char *)c->inputs[a->index] + a->offset;
            break;
        case LB_IN_OUTPUT:
            args[i] = (char *)c->outputs[a->index] + a->offset;
            break;
        case LB_IN_SCRATCH:
            args[i] = c->memory->scratch + c->plan->scratch_bytes * (size_t)worker;
            break;
        default:
            args[i] = a->constant;
        }
    }
}

/* Other threads are at work on parts that this one must wait for. */
static void wait_until(atomic_int *value, int wanted) {
    for (int spins = 0; atomic_load_explicit(value, memory_order_acquire) < wanted; spins++) {
#if defined __x86_64__
        __builtin_ia32_pause();
#endif
        if (spins >= SPINS) {
            sched_yield();
            spins = 0;
        }
    }
}

/* Items of a step, and behind each of them those of its followers. Where steps are timed, each is done alone. */
static void run_items(const call *c, const lb_plan_step *step, int worker, void **args, int32_t from, int32_t to) {
    if (!step->followers || c->times) {
        step->call(step->params, args, from, to);
        return;
    }
    void *others[LB_PLAN_MAX_ARGS];
    for (int64_t item = from; item < to; item++) {
        step->call(step->params, args, (int32_t)item, (int32_t)item + 1);
        for (const lb_plan_step *f = step + 1; f <= step + step->followers; f++) {
            const int64_t begin = item * f->fused_items, end = begin + f->fused_items < f->items ? begin + f->fused_items : f->items;
            if (begin >= end)
                continue; /* it reads a part of what was made */
            resolve(c, f, worker, others);
            f->call(f->params, others, (int32_t)begin, (int32_t)end);
        }
    }
}

/* A step: the parts of the thread's own share, then those of others that nobody has begun. A thread that joins late finds the others where
 * they are, and one that never comes is not missed. */
static void run_shared(const call *c, int s, int worker, void **args) {
    const lb_plan *plan = c->plan;
    const lb_plan_step *step = &plan->steps[s];
    const int used = plan->shares < step->chunks ? plan->shares : step->chunks;
    progress *shares = c->memory->shares + (ptrdiff_t)s * plan->shares;
    int resolved = 0, parts[MOST_SHARES];
    for (int turn = 0; turn < used; turn++) {
        const int share = (worker + turn) % used, first = (step->chunks * share + used - 1) / used;
        progress *p = &shares[share];
        parts[share] = (step->chunks * (share + 1) + used - 1) / used - first; /* most for the caller, who is first there */
        while (atomic_load_explicit(&p->next, memory_order_relaxed) < parts[share]) {
            const int part = first + atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
            if (part >= first + parts[share])
                break;
            if (!resolved)
                resolve(c, step, worker, args);
            resolved = 1;
            const int64_t from = (int64_t)step->items * part / step->chunks, to = (int64_t)step->items * (part + 1) / step->chunks;
            run_items(c, step, worker, args, (int32_t)from, (int32_t)to);
            atomic_fetch_add_explicit(&p->done, 1, memory_order_release);
        }
    }
    for (int share = 0; share < used; share++)
        wait_until(&shares[share].done, parts[share]);
}

/* All steps in order. */
static void work(int worker, void *context) {
    const call *c = context;
    void *args[LB_PLAN_MAX_ARGS];
    int64_t before = c->times && worker == 0 ? now_ns() : 0;
    for (int s = 0; s < c->plan->count; s++) {
        const lb_plan_step *step = &c->plan->steps[s];
        if (step->fused_items && !c->times)
            continue; /* done with the step before */
        if (c->plan->threads == 1) {
            resolve(c, step, worker, args);
            run_items(c, step, worker, args, 0, step->items);
        } else
            run_shared(c, s, worker, args);
        if (c->times && worker == 0) {
            const int64_t after = now_ns();
            c->times[s] = after - before;
            before = after;
        }
    }
}

int lb_plan_run(lb_plan *plan, void *const *inputs, void *const *outputs, int64_t *times) {
    workspace *memory = take(plan);
    if (!memory)
        return -1;
    call c = {plan, memory, inputs, outputs, times};
    if (plan->threads == 1)
        work(0, &c);
    else {
        memset(memory->shares, 0, sizeof(progress) * (size_t)plan->shares * (size_t)plan->count);
        lb_pool_run(plan->threads, plan->threads, work, &c);
    }
    give_back(plan, memory);
    return 0;
}
