#define _GNU_SOURCE /* affinity, where there is any */
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

/* A thread wakes from sleep in 30 to 100 us, so nobody goes to sleep at once: the caller waits awake for jobs that end at about the same
 * time, the others for the caller who comes back. */
enum { MAX_THREADS = 64, SPIN_NS = 200000, LINGER_NS = 100000 };

static pthread_mutex_t owner = PTHREAD_MUTEX_INITIALIZER; /* held by the caller whose jobs run */

static struct {
    pthread_mutex_t lock; /* guards all but `next`; `inside` and `wanted` are looked at without it */
    pthread_cond_t wake;  /* there is work */
    pthread_cond_t idle;  /* the last thread has left */
    int forks_known;      /* whether `child` was registered */
    int threads;          /* started */
    int avoided;          /* the CPU that they keep off, or -1 */
    pthread_t ids[MAX_THREADS];
    int linger;        /* whether threads wait awake: each has a CPU that is not the caller's */
    atomic_int wanted; /* how many more may enter the work at hand; 0 when there is none */
    atomic_int inside; /* how many are in it */
    int count;
    lb_job_fn *job;
    void *context;
    atomic_int next; /* the first job that nobody has begun */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER};

static void work(void) {
    for (;;) {
        const int i = atomic_fetch_add(&pool.next, 1);
        if (i >= pool.count)
            return;
        pool.job(i, pool.context);
    }
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void relax(void) {
#if defined __x86_64__
    __builtin_ia32_pause();
#endif
}

static void *thread(void *unused) {
    (void)unused;
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        if (!pool.wanted && pool.linger) {
            pthread_mutex_unlock(&pool.lock);
            for (const int64_t end = now_ns() + LINGER_NS; !pool.wanted && now_ns() < end;)
                relax();
            pthread_mutex_lock(&pool.lock);
        }
        while (!pool.wanted)
            pthread_cond_wait(&pool.wake, &pool.lock);
        pool.wanted--;
        pool.inside++;
        pthread_mutex_unlock(&pool.lock);
        work();
        pthread_mutex_lock(&pool.lock);
        if (--pool.inside == 0)
            pthread_cond_signal(&pool.idle);
    }
    return NULL;
}

/* With pool.lock held. Fewer threads than asked for are fewer, not an error. */
static void start_threads(int threads) {
    while (pool.threads < threads) {
        if (pthread_create(&pool.ids[pool.threads], NULL, thread, NULL) != 0)
            return;
        pthread_detach(pool.ids[pool.threads++]);
        pool.avoided = -1;
    }
}

/* With pool.lock held: the threads may run on every CPU of the caller but the one that it is on. When all are busy (a BLAS whose
 * threads wait awake is enough), a thread that wakes is put behind the one that woke it, and would wait for all of its work. */
static void keep_off_the_callers_cpu(void) {
#ifdef __linux__
    const int here = sched_getcpu();
    cpu_set_t others;
    if (here < 0 || here == pool.avoided || pthread_getaffinity_np(pthread_self(), sizeof others, &others) != 0)
        return;
    CPU_CLR((size_t)here, &others);
    pool.linger = CPU_COUNT(&others) >= pool.threads;
    for (int i = 0; i < pool.threads && CPU_COUNT(&others) > 0; i++)
        pthread_setaffinity_np(pool.ids[i], sizeof others, &others);
    pool.avoided = here;
#endif
}

/* A child of fork has the memory of the pool but none of its threads, and maybe locks that nobody will release. */
static void child(void) {
    pthread_mutex_init(&owner, NULL);
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.wake, NULL);
    pthread_cond_init(&pool.idle, NULL);
    pool.threads = pool.wanted = pool.inside = 0;
}

void lb_pool_run(int count, int threads, lb_job_fn *job, void *context) {
    threads = threads < count ? threads : count;
    threads = threads < MAX_THREADS ? threads : MAX_THREADS;
    if (threads < 2 || pthread_mutex_trylock(&owner) != 0) {
        for (int i = 0; i < count; i++)
            job(i, context);
        return;
    }
    pthread_mutex_lock(&pool.lock);
    if (!pool.forks_known)
        pool.forks_known = pthread_atfork(NULL, NULL, child) == 0;
    pool.job = job, pool.context = context, pool.count = count;
    atomic_store(&pool.next, 0);
    pool.wanted = threads - 1;
    start_threads(threads - 1);
    keep_off_the_callers_cpu();
    if (threads == 2)
        pthread_cond_signal(&pool.wake);
    else
        pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.lock);
    work();
    for (const int64_t end = now_ns() + SPIN_NS; pool.inside && now_ns() < end;)
        relax();
    pthread_mutex_lock(&pool.lock);
    pool.wanted = 0;
    while (pool.inside)
        pthread_cond_wait(&pool.idle, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
    pthread_mutex_unlock(&owner);
}
