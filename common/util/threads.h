/*
 * threads.h - work in like parts that several threads share, and that ends before the call returns.
 */
#ifndef BELAY_COMMON_UTIL_THREADS_H
#define BELAY_COMMON_UTIL_THREADS_H

#define THREADS_MAX 16u

/* Do a part. Several run at the same time, each another one. */
typedef void (*threads_f)(void *context, unsigned part);

/*
 * Have all parts done by so many threads, this one among them, each taking the next part that nobody has
 * taken. Where a thread cannot be started, the others do its parts. At most THREADS_MAX threads, and no more
 * than parts.
 */
void threads_share(unsigned threads, unsigned parts, threads_f run, void *context);

/* How many processors this thread may use; at least 1. */
unsigned threads_processors(void);

#endif
