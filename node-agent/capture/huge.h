/*
 * huge.h - keeps a process's huge pages whole while its memory is tracked.
 *
 * The first write to a write-protected huge page splits it: from then on the processor looks up 4 KiB pages,
 * and random reads take 1.2 to 1.9 times as long. So after a line huge pages that were split are made
 * whole. These pages, and all that were split earlier, stay unprotected until the next line, which counts
 * them as written; writes to them cost nothing in between. Now and then all pages are protected again, since
 * some of them may no longer be written to.
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
    struct run_set written; /* the blocks that were split since all pages were protected */
    unsigned lines;         /* taken since all pages were protected */
    unsigned period;        /* after so many lines all pages are protected again */
};

/* For a process. huge_release() it. */
void huge_init(struct huge *huge, pid_t pid, int pagemap, int uffd);
void huge_release(struct huge *huge);

/* Before these pages are protected for the first time: note which of them are huge. 0, or -1 with errno. */
int huge_note(struct huge *huge, const struct run_set *pages);

/* After a line, while the process runs: make split pages whole. If this fails, they stay split and tracked.
 */
void huge_restore(struct huge *huge);

/* What lies in this range is tracked no more. */
void huge_forget(struct huge *huge, uint64_t start, uint64_t end);

#endif
