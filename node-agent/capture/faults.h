/*
 * faults.h - how many page faults a process has taken: with tracked memory, a cheap guess at how much it
 * writes.
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_FAULTS_H
#define BELAY_NODE_AGENT_CAPTURE_FAULTS_H

#include <stdint.h>
#include <sys/types.h>

struct faults {
    uint64_t minor;          /* of all its threads, since it began; 0: unknown */
    uint64_t resident_pages; /* of memory, now */
};

/* Those of a process: proc(5), /proc/PID/stat. Returns 0, or -1 with errno (ENOENT, ESRCH: it is gone). */
int faults_read(pid_t pid, struct faults *faults);

/*
 * An upper bound, in bytes, of what the process has written from `then` to `now`: a page for each fault, and
 * the growth of its resident memory (huge pages). Writes of the kernel and of other processes are not
 * counted.
 */
uint64_t faults_bytes(const struct faults *then, const struct faults *now);

/*
 * A forecast, in bytes, of what the process will write in the next `ns` nanoseconds. Two samples of 5 ms each
 * give the present rate of faults and how fast the rate falls: it falls when the process writes to few pages
 * again and again. Blocks for 10 ms. Returns 0 if the process is gone.
 */
uint64_t faults_forecast(pid_t pid, uint64_t ns);

#endif
