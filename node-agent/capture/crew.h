/*
 * crew.h - several threads that share the copying of one rank's pages.
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_CREW_H
#define BELAY_NODE_AGENT_CAPTURE_CREW_H

#include <sched.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/image/runs.h"
#include "common/util/error.h"
#include "common/util/threads.h"

#define CREW_MAX THREADS_MAX

/* Copies some pages. Returns 0 or -1 with err. Several calls run at the same time, each with other pages. */
typedef int (*crew_f)(void *context, const struct run_set *pages, struct belay_error *err);

/*
 * Copy the pages with `threads` threads, the calling one among them; the parts have about the same size. If a
 * thread cannot be started, the calling thread copies its part. Returns 0, or -1 with the err of a part that
 * failed.
 */
int crew_copy(const struct run_set *pages, unsigned threads, crew_f copy, void *context,
              struct belay_error *err);

/*
 * How many threads may copy `bytes` of process `pid`, which stands still: one for each processor that the
 * threads of the process may use, divided by the number of processes that are copied there, and no more than
 * the process has threads. main_sets: for each of the `count` processes that stand still (`pid` included),
 * the processors that its main thread may use.
 */
unsigned crew_size(pid_t pid, uint64_t bytes, const cpu_set_t *main_sets, uint32_t count);

#endif
