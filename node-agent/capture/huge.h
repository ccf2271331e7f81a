/*
 * huge.h - keeps a process's huge pages whole while its memory is tracked.
 *
 * The first write to a write-protected huge page splits it: from then on the processor looks up 4 KiB pages,
 * and random reads take 1.2 to 1.9 times as long. So after a line huge pages that were split are made
 * whole, and they and all that were split earlier are left unprotected until the next line, where they
 * count as written. In between, writing to them costs nothing. From time to time all are protected again,
 * since it may be that some are not written to any more.
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_HUGE_H
#define BELAY_NODE_AGENT_CAPTURE_HUGE_H

#include <sys/types.h>

#include "common/image/runs.h"

struct huge {
    pid_t pid;
    int pagemap, uffd;      /* of the process; borrowed */
    int process;            /* pidfd; -1: split pages, if there are any, stay split */
    struct run_set blocks;  /* of 2 MiB: huge pages when they were noted */
    struct run_set written; /* of these, split since all were protected */
    unsigned lines, period; /* since then; after so many all are protected again */
};

/* For a process. huge_release() it. */
void huge_init(struct huge *huge, pid_t pid, int pagemap, int uffd);
void huge_release(struct huge *huge);

/* Before these pages are protected for the first time: note which of them are huge. 0, or -1 with errno. */
int huge_note(struct huge *huge, const struct run_set *pages);

/* After a line, while the process runs. What fails leaves pages split, and tracked. */
void huge_restore(struct huge *huge);

#endif
