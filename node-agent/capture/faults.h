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
 * What it has written from `then` to `now`, in bytes, at most: a page for each fault, and what it has got in
 * larger pieces (huge pages). What the kernel or other processes wrote is not in it.
 */
uint64_t faults_bytes(const struct faults *then, const struct faults *now);

/*
 * What it will write in the next `ns`, in bytes, at the rate at which it takes faults now: two samples of 5
 * ms tell also how fast that rate falls, as it does when the pages that it writes to are few. 0 if it is
 * gone.
 */
uint64_t faults_forecast(pid_t pid, uint64_t ns);

#endif
