#include "node-agent/capture/huge.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "common/util/pagemap.h"
#include "common/util/uffd.h"

#define BLOCK_BYTES (2ull << 20)
#define PERIOD_MIN 8u
#define PERIOD_MAX 64u
#define ADVICE_COLLAPSE 25 /* MADV_COLLAPSE, Linux 6.1 */

static int find(const struct huge *huge, const struct run_set *where, struct pagemap_query query,
                struct run_set *to);
static int find_split(const struct huge *huge, struct run_set *split, struct run_set *gone);
static void protect_all_in_time(struct huge *huge);
static void lift(struct huge *huge);
static void collapse(struct huge *huge, const struct run_set *split);
static void forget_split(struct huge *huge, const struct run_set *split);

void huge_init(struct huge *huge, pid_t pid, int pagemap, int uffd)
{
    *huge = (struct huge){.pid = pid, .pagemap = pagemap, .uffd = uffd, .process = -1, .period = PERIOD_MIN};
}

void huge_release(struct huge *huge)
{
    int code = errno;
    if (huge->process >= 0)
        close(huge->process);
    runs_release(&huge->blocks);
    runs_release(&huge->written);
    errno = code;
}

int huge_note(struct huge *huge, const struct run_set *pages)
{
    struct run_set found = {0}, all = {0};
    int rc = find(huge, pages, (struct pagemap_query){.all = PAGEMAP_HUGE}, &found);
    if (rc == 0 && found.count > 0)
        rc = runs_union(&huge->blocks, &found, &all);
    if (rc == 0 && found.count > 0)
        runs_move(&all, &huge->blocks);
    if (found.count > 0 && huge->process < 0) /* most programs have none */
        huge->process = pidfd_open(huge->pid, 0);
    runs_release(&found);
    runs_release(&all);
    return rc;
}

void huge_restore(struct huge *huge)
{
    struct run_set split = {0}, gone = {0}, left = {0}, written = {0}, still = {0};
    if (huge->blocks.count == 0)
        return;
    protect_all_in_time(huge);
    if (find_split(huge, &split, &gone) == 0 && runs_subtract(&huge->blocks, &gone, &left) == 0 &&
        runs_union(&huge->written, &split, &written) == 0 && runs_subtract(&written, &gone, &still) == 0) {
        runs_move(&left, &huge->blocks);
        runs_move(&still, &huge->written);
        lift(huge);
        collapse(huge, &split);
    }
    runs_release(&split);
    runs_release(&gone);
    runs_release(&left);
    runs_release(&written);
    runs_release(&still);
}

/* Whole blocks that have what is asked for. */
static int find(const struct huge *huge, const struct run_set *where, struct pagemap_query query,
                struct run_set *to)
{
    for (size_t i = 0; i < where->count; i++) {
        struct run_set found = {0};
        query.start = where->runs[i].address;
        query.end = query.start + where->runs[i].bytes;
        int rc = pagemap_scan(huge->pagemap, &query, runs_append_range, &found);
        for (size_t k = 0; rc == 0 && k < found.count; k++) {
            uint64_t start = (found.runs[k].address + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
            uint64_t end = (found.runs[k].address + found.runs[k].bytes) / BLOCK_BYTES * BLOCK_BYTES;
            rc = start < end ? runs_append(to, start, end - start) : 0;
        }
        runs_release(&found);
        if (rc < 0)
            return -1;
    }
    return 0;
}

/* gone: blocks of which pages were given back, so that they are no huge pages for the process either. */
static int find_split(const struct huge *huge, struct run_set *split, struct run_set *gone)
{
    struct run_set whole = {0}, torn = {0};
    int rc = -1;
    if (find(huge, &huge->blocks, (struct pagemap_query){.all = PAGEMAP_HUGE}, &whole) == 0 &&
        runs_subtract(&huge->blocks, &whole, &torn) == 0 &&
        find(huge, &torn, (struct pagemap_query){.any = PAGEMAP_PRESENT}, split) == 0 &&
        runs_subtract(&torn, split, gone) == 0)
        rc = 0;
    runs_release(&whole);
    runs_release(&torn);
    return rc;
}

/* More and more rarely: it costs a split of each page that is still written to. */
static void protect_all_in_time(struct huge *huge)
{
    if (++huge->lines < huge->period)
        return;
    huge->lines = 0;
    huge->period = 2 * huge->period < PERIOD_MAX ? 2 * huge->period : PERIOD_MAX;
    runs_release(&huge->written);
}

/* A block that cannot be changed has gone: whatever takes its place is found, and told, at the next line. */
static void lift(struct huge *huge)
{
    for (size_t i = 0; i < huge->written.count; i++)
        uffd_protect(huge->uffd, huge->written.runs[i].address,
                     huge->written.runs[i].address + huge->written.runs[i].bytes, false);
}

/* Without memory they stay, and lose their protection too early: the samples of cow.h count as written. */
void huge_forget(struct huge *huge, uint64_t start, uint64_t end)
{
    struct run_set gone = {0}, blocks = {0}, written = {0};
    if (runs_append(&gone, start, end - start) == 0 && runs_subtract(&huge->blocks, &gone, &blocks) == 0 &&
        runs_subtract(&huge->written, &gone, &written) == 0) {
        runs_move(&blocks, &huge->blocks);
        runs_move(&written, &huge->written);
    }
    runs_release(&gone);
    runs_release(&blocks);
    runs_release(&written);
}

/* By a copy of each, in the kernel. Needs CAP_SYS_NICE; without it khugepaged does it some time. */
static void collapse(struct huge *huge, const struct run_set *split)
{
    for (size_t i = 0; huge->process >= 0 && i < split->count; i++) {
        struct run_set one = {.runs = &split->runs[i], .count = 1};
        struct iovec range = {(void *)(uintptr_t)one.runs->address, one.runs->bytes};
        if (process_madvise(huge->process, &range, 1, ADVICE_COLLAPSE, 0) < 0 && errno == EINVAL)
            forget_split(huge, &one);
    }
}

/* Of these, what is no huge page and cannot be one any more is tracked by pages of 4 KiB from now on. */
static void forget_split(struct huge *huge, const struct run_set *split)
{
    struct run_set whole = {0}, torn = {0}, blocks = {0}, written = {0};
    if (find(huge, split, (struct pagemap_query){.all = PAGEMAP_HUGE}, &whole) == 0 &&
        runs_subtract(split, &whole, &torn) == 0 && runs_subtract(&huge->blocks, &torn, &blocks) == 0 &&
        runs_subtract(&huge->written, &torn, &written) == 0) {
        runs_move(&blocks, &huge->blocks);
        runs_move(&written, &huge->written);
    }
    runs_release(&whole);
    runs_release(&torn);
    runs_release(&blocks);
    runs_release(&written);
}
