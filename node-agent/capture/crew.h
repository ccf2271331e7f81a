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

/* Copies some pages; returns 0 or -1 with err. Several run at the same time, each with other pages. */
typedef int (*crew_f)(void *context, const struct run_set *pages, struct belay_error *err);

/*
 * Have the pages copied by so many threads, this one among them, each a part of about the same size. Where a
 * thread cannot be started, this one does its part. Returns 0, or -1 with the err of one that failed.
 */
int crew_copy(const struct run_set *pages, unsigned threads, crew_f copy, void *context,
              struct belay_error *err);

/*
 * How many threads may copy bytes of a process that stands still: one for each processor that its threads may
 * use, divided by the processes at work there, and no more than it has threads. main_sets: what the main
 * thread of each process that stands still may use, its own among them.
 */
unsigned crew_size(pid_t pid, uint64_t bytes, const cpu_set_t *main_sets, uint32_t count);

#endif
