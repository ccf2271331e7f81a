/*
 * mounts.h - which file systems this process sees, so that nodes can tell which of them they have in common.
 *
 * Two nodes have a file system in common if one kernel runs both and has it mounted for both. What a kernel
 * has mounted from a disk or in memory is its own: no other one has it. File systems of the network have
 * other device numbers on each host (file_id_is_on_network()), and are none of these.
 */
#ifndef BELAY_COMMON_UTIL_MOUNTS_H
#define BELAY_COMMON_UTIL_MOUNTS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define MOUNTS_MAX 512 /* file systems; of more, the rest counts as not in common */

struct mounts {
    uint64_t kernel; /* a digest of its boot id; 0: not known */
    size_t count;
    uint64_t devices[MOUNTS_MAX]; /* ascending, each once; as in struct file_id */
};

/* What this process sees. What cannot be read is none. */
void mounts_read(struct mounts *mounts);
/* The devices that lines of mountinfo (proc(5)) tell. */
void mounts_parse(FILE *lines, struct mounts *mounts);

/*
 * Leave of `common` only what the other node has, too. Its devices may be anything that a peer has said: they
 * count as long as they ascend.
 */
void mounts_intersect(struct mounts *common, uint64_t kernel, const uint64_t *devices, size_t count);

/*
 * Which host this is, in which state of its own file systems, when it is first asked: another number after a
 * reboot. Never 0.
 */
uint64_t mounts_host(void);

#endif
