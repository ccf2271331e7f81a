/*
 * threads.h - work in equal parts that several threads share, and that ends before the call returns.
 */
#ifndef BELAY_COMMON_UTIL_THREADS_H
#define BELAY_COMMON_UTIL_THREADS_H

#define THREADS_MAX 16u

/* Does one part. Several calls run at the same time, each for another part. */
typedef void (*threads_f)(void *context, unsigned part);

/*
 * Do all parts with `threads` threads, the calling one among them; each takes the next part that is not taken
 * yet. If a thread cannot be started, the others do its parts. At most THREADS_MAX threads run, and no more
 * than there are parts.
 */
void threads_share(unsigned threads, unsigned parts, threads_f run, void *context);

/* How many processors this thread may use; at least 1. */
unsigned threads_processors(void);

#endif
