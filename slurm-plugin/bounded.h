/*
 * bounded.h - waiting for a child process for a bounded time. Slurm's daemons wait for the plugin, and while
 * an epilog runs, Slurm gives its node to no other job.
 */
#ifndef BELAY_SLURM_PLUGIN_BOUNDED_H
#define BELAY_SLURM_PLUGIN_BOUNDED_H

#include <sys/types.h>

/*
 * Wait until the child has ended; status as of waitpid(). Returns 0, or -1 with errno: ETIMEDOUT if it has
 * not ended after limit_ms. It is killed then, and not waited for: a process that sleeps in the kernel does
 * not hear of that.
 */
int bounded_wait(pid_t child, unsigned limit_ms, int *status);

#endif
