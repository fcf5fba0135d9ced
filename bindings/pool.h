/* Threads that run jobs for one caller at a time. Made when first needed, never ended; the process that forks starts its own. */
#ifndef LB_POOL_H
#define LB_POOL_H

typedef void lb_job_fn(int index, void *context);

/* Runs job(0, context) ... job(count - 1, context), each once, on up to `threads` threads of which the caller is one; returns when
 * all have ended. The caller takes what no other thread has begun, so it never waits for one that wakes late; and if another
 * caller has the threads, it does everything itself. */
void lb_pool_run(int count, int threads, lb_job_fn *job, void *context);

#endif
