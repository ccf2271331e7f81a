#include "node-agent/capture/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define RUNS_AT_ONCE 256u
#define BYTES_AT_ONCE (1ull << 30) /* one call moves less than 2 GiB */

struct source {
    pid_t pid;
    int mem; /* /proc/PID/mem, -1: not opened yet */
    const struct maps *maps;
    char *image;
};

static size_t copy_batch(struct source *source, const struct image_run *runs, size_t count);
static int copy_run_slowly(struct source *source, const struct image_run *run, struct belay_error *err);
static int open_mem(struct source *source, struct belay_error *err);
static bool may_lack_pages(const struct maps *maps, uint64_t address);

int copy_runs(pid_t pid, const struct maps *maps, const struct image_run *runs, size_t count, char *image,
              struct belay_error *err)
{
    struct source source = {.pid = pid, .mem = -1, .maps = maps, .image = image};
    int rc = 0;
    for (size_t done = 0; rc == 0 && done < count;) {
        done += copy_batch(&source, runs + done, count - done);
        bool is_next_slow = done < count && (errno != 0 || runs[done].bytes > BYTES_AT_ONCE);
        if (is_next_slow)
            rc = copy_run_slowly(&source, &runs[done++], err);
    }
    int code = errno;
    if (source.mem >= 0)
        close(source.mem);
    errno = code;
    return rc;
}

/* Copy whole runs while that works. Returns how many; errno is 0 if the next may be tried the same way. */
static size_t copy_batch(struct source *source, const struct image_run *runs, size_t count)
{
    struct iovec remote[RUNS_AT_ONCE], local[RUNS_AT_ONCE];
    size_t taken = 0, bytes = 0, whole = 0;
    while (taken < count && taken < RUNS_AT_ONCE && bytes + runs[taken].bytes <= BYTES_AT_ONCE) {
        remote[taken] = (struct iovec){(void *)(uintptr_t)runs[taken].address, runs[taken].bytes};
        local[taken] = (struct iovec){source->image + runs[taken].data_offset, runs[taken].bytes};
        bytes += runs[taken++].bytes;
    }
    errno = 0;
    if (taken == 0)
        return 0;
    ssize_t got = process_vm_readv(source->pid, local, taken, remote, taken, 0);
    if (got == (ssize_t)bytes) {
        errno = 0;
        return taken;
    }
    if (got >= 0)
        errno = EFAULT;
    for (size_t sum = 0; got > 0 && sum + runs[whole].bytes <= (size_t)got; whole++)
        sum += runs[whole].bytes;
    return whole;
}

/* Through /proc/PID/mem, which also reads what the process itself may not; page by page at a hole. */
static int copy_run_slowly(struct source *source, const struct image_run *run, struct belay_error *err)
{
    if (open_mem(source, err) < 0)
        return -1;
    for (uint64_t done = 0; done < run->bytes;) {
        uint64_t left = run->bytes - done, address = run->address + done;
        size_t want = left < BYTES_AT_ONCE ? left : BYTES_AT_ONCE;
        ssize_t got = pread(source->mem, source->image + run->data_offset + done, want, (off_t)address);
        if (got < 0 && errno == EINTR)
            continue;
        if (got > 0) {
            done += (uint64_t)got;
            continue;
        }
        if (got == 0)
            return belay_error_set(err, ESRCH, "process %d is gone", (int)source->pid);
        if (!may_lack_pages(source->maps, address))
            return belay_error_errno(err, "cannot read memory of process %d at %#llx", (int)source->pid,
                                     (unsigned long long)address);
        memset(source->image + run->data_offset + done, 0, IMAGE_PAGE_BYTES);
        done += IMAGE_PAGE_BYTES;
    }
    return 0;
}

static int open_mem(struct source *source, struct belay_error *err)
{
    char name[64];
    if (source->mem >= 0)
        return 0;
    snprintf(name, sizeof name, "/proc/%d/mem", (int)source->pid);
    source->mem = open(name, O_RDONLY | O_CLOEXEC);
    return source->mem >= 0 ? 0 : belay_error_errno(err, "cannot open %s", name);
}

/* Reading an absent huge page takes one of those that were set aside: there may be none left. */
static bool may_lack_pages(const struct maps *maps, uint64_t address)
{
    const struct mapping *mapping = maps_find(maps, address);
    return mapping && (mapping->content == MAPPING_CONTENT_ALL || mapping->is_huge);
}
