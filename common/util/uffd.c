#include "common/util/uffd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/util/pagemap.h"
#include "common/util/trial.h"

#define PAGE_BYTES 4096ul
#define USER_MODE_ONLY 1
#define NEW_BY_DEVICE _IO(0xAA, 0x00) /* USERFAULTFD_IOC_NEW, Linux 6.1 */
#define FEATURE_WP_UNPOPULATED (1u << 13)
#define FEATURE_WP_ASYNC (1u << 15)
#define PROBE_MS 5000

static int make_by_device(void);
static bool is_kernel_served(int uffd, char *pages);

int uffd_make_full(void)
{
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    return fd >= 0 ? fd : make_by_device();
}

int uffd_make(void)
{
    int fd = uffd_make_full();
    return fd >= 0 ? fd : (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | USER_MODE_ONLY);
}

int uffd_begin(int uffd, enum uffd_mode mode)
{
    static const uint64_t features[] = {
        [UFFD_MODE_ASYNC] = FEATURE_WP_ASYNC | FEATURE_WP_UNPOPULATED,
        [UFFD_MODE_SERVED] = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_EVENT_REMAP,
        [UFFD_MODE_GUARD] = UFFD_FEATURE_PAGEFAULT_FLAG_WP | FEATURE_WP_UNPOPULATED,
        [UFFD_MODE_DEMAND] = UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MINOR_SHMEM,
    };
    struct uffdio_api api = {.api = UFFD_API, .features = features[mode]};
    return ioctl(uffd, UFFDIO_API, &api);
}

int uffd_register(int uffd, enum uffd_mode mode, uint64_t start, uint64_t end)
{
    struct uffdio_register range = {.range = {start, end - start}, .mode = UFFDIO_REGISTER_MODE_WP};
    if (mode == UFFD_MODE_DEMAND) /* one alone misses pages that are in the memfd, or that are not */
        range.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR;
    if (ioctl(uffd, UFFDIO_REGISTER, &range))
        return -1;
    bool is_huge = !(range.ioctls & 1ull << _UFFDIO_ZEROPAGE); /* what the kernel offers for all but these */
    if (mode == UFFD_MODE_ASYNC || !is_huge)
        return 0;
    uffd_unregister(uffd, start, end);
    errno = EINVAL;
    return -1;
}

int uffd_unregister(int uffd, uint64_t start, uint64_t end)
{
    struct uffdio_range range = {start, end - start};
    return ioctl(uffd, UFFDIO_UNREGISTER, &range);
}

int uffd_protect(int uffd, uint64_t start, uint64_t end, bool is_protected)
{
    struct uffdio_writeprotect range = {.range = {start, end - start},
                                        .mode = is_protected ? UFFDIO_WRITEPROTECT_MODE_WP : 0};
    return ioctl(uffd, UFFDIO_WRITEPROTECT, &range);
}

/* Returns where the range ends of which nothing is left to do. */
static uint64_t map_some(int uffd, uint64_t start, uint64_t end)
{
    struct uffdio_continue range = {.range = {start, end - start}};
    if (ioctl(uffd, UFFDIO_CONTINUE, &range) == 0)
        return end;
    if (range.mapped > 0)
        return start + (uint64_t)range.mapped;
    if (errno == EAGAIN)
        return start;
    if (errno == ESRCH) /* the process is gone */
        return end;
    if (errno == ENOENT &&
        end - start > PAGE_BYTES) /* not one mapping: one that was ours may be split by now */
        return map_some(uffd, start, start + (end - start) / 2 / PAGE_BYTES * PAGE_BYTES);
    uffd_wake(uffd, start, start + PAGE_BYTES); /* mapped already, or there is no such mapping any more */
    return start + PAGE_BYTES;
}

/* After what was too much at once, twice as much is tried as what was not. */
void uffd_map(int uffd, uint64_t start, uint64_t end)
{
    uint64_t most = end - start;
    while (start < end) {
        uint64_t last = end - start < most ? end : start + most, next = map_some(uffd, start, last);
        most = 2 * (next > start ? next - start : PAGE_BYTES);
        start = next;
    }
}

void uffd_wake(int uffd, uint64_t start, uint64_t end)
{
    struct uffdio_range range = {start, end - start};
    ioctl(uffd, UFFDIO_WAKE, &range);
}

enum uffd_news uffd_read(int uffd, uint64_t *start, uint64_t *end)
{
    struct uffd_msg message;
    while (read(uffd, &message, sizeof message) == (ssize_t)sizeof message) {
        if (message.event == UFFD_EVENT_PAGEFAULT) {
            *start = message.arg.pagefault.address & ~(PAGE_BYTES - 1);
            *end = *start + PAGE_BYTES;
            return UFFD_NEWS_WRITE;
        }
        if (message.event == UFFD_EVENT_REMAP) {
            *start = message.arg.remap.to;
            *end = *start + message.arg.remap.len;
            return UFFD_NEWS_MOVED;
        }
    }
    return UFFD_NEWS_NONE;
}

/* A user who may open it may have the kernel's writes as well. */
static int make_by_device(void)
{
    int device = open("/dev/userfaultfd", O_RDONLY | O_CLOEXEC);
    if (device < 0)
        return -1;
    int fd = ioctl(device, NEW_BY_DEVICE, O_CLOEXEC | O_NONBLOCK);
    close(device);
    return fd;
}

static int add_pages(void *context, uint64_t start, uint64_t end)
{
    *(uint64_t *)context += (end - start) / PAGE_BYTES;
    return 0;
}

/* How many of the pages were written since they were last armed; -1: it cannot be told. */
static int64_t count_written(const struct trial *trial)
{
    uint64_t count = 0;
    struct pagemap_query query = {.start = (uintptr_t)trial->pages,
                                  .end = (uintptr_t)trial->pages + trial->bytes,
                                  .arm = true,
                                  .all = PAGEMAP_WRITTEN};
    return pagemap_scan(trial->pagemap, &query, add_pages, &count) < 0 ? -1 : (int64_t)count;
}

/* The same without arming them. */
static int64_t count_unprotected(const struct trial *trial)
{
    uint64_t count = 0;
    struct pagemap_query query = {.start = (uintptr_t)trial->pages,
                                  .end = (uintptr_t)trial->pages + trial->bytes,
                                  .all = PAGEMAP_WRITTEN};
    return pagemap_scan(trial->pagemap, &query, add_pages, &count) < 0 ? -1 : (int64_t)count;
}

bool uffd_async_works(void)
{
    struct trial trial;
    bool works = trial_open(&trial, 2 * PAGE_BYTES, uffd_make());
    uint64_t at = (uintptr_t)trial.pages;
    works = works && uffd_begin(trial.tried, UFFD_MODE_ASYNC) == 0 &&
            uffd_register(trial.tried, UFFD_MODE_ASYNC, at, at + trial.bytes) == 0 &&
            count_written(&trial) >= 0;
    if (works) {
        ((volatile char *)trial.pages)[PAGE_BYTES] = 1;
        works = count_written(&trial) == 1 && count_written(&trial) == 0;
    }
    trial_close(&trial);
    return works;
}

bool uffd_served_works(void)
{
    struct trial trial;
    bool works = trial_open(&trial, 2 * PAGE_BYTES, uffd_make());
    if (works) {
        uint64_t at = (uintptr_t)trial.pages, end = at + trial.bytes, entries[2];
        trial.pages[0] = trial.pages[PAGE_BYTES] = 1;
        works = uffd_begin(trial.tried, UFFD_MODE_SERVED) == 0 &&
                uffd_register(trial.tried, UFFD_MODE_SERVED, at, end) == 0 &&
                uffd_protect(trial.tried, at, end, true) == 0 && is_kernel_served(trial.tried, trial.pages) &&
                pagemap_entries(trial.pagemap, at, entries, 2) == 2 &&
                !(entries[0] & PAGEMAP_ENTRY_PROTECTED) && (entries[1] & PAGEMAP_ENTRY_PROTECTED);
    }
    trial_close(&trial);
    return works;
}

bool uffd_guard_works(void)
{
    struct trial trial;
    bool works = trial_open(&trial, 2 * PAGE_BYTES, uffd_make());
    uint64_t at = (uintptr_t)trial.pages;
    if (works) {
        trial.pages[0] = 1;
        works = uffd_begin(trial.tried, UFFD_MODE_GUARD) == 0 &&
                uffd_register(trial.tried, UFFD_MODE_GUARD, at, at + trial.bytes) == 0 &&
                uffd_protect(trial.tried, at, at + trial.bytes, true) == 0 &&
                count_unprotected(&trial) == 0 && is_kernel_served(trial.tried, trial.pages) &&
                count_unprotected(&trial) == 1;
    }
    trial_close(&trial);
    return works;
}

/* Two pages of a memfd: the first is there before it is touched, the second comes when somebody waits for it.
 */
static bool serves_demand(int uffd, int file, char *pages);

bool uffd_demand_works(void)
{
    int uffd = uffd_make_full();
    int file = uffd >= 0 ? memfd_create("belay-trial", MFD_CLOEXEC) : -1;
    char *pages = MAP_FAILED;
    bool works = false;
    if (file >= 0 && ftruncate(file, 2 * PAGE_BYTES) == 0)
        pages = mmap(NULL, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    if (pages != MAP_FAILED) {
        works = serves_demand(uffd, file, pages);
        munmap(pages, 2 * PAGE_BYTES);
    }
    if (file >= 0)
        close(file);
    if (uffd >= 0)
        close(uffd);
    return works;
}

struct demand_probe {
    int uffd, file, done;
    uint64_t pages;
};

/* The pages as they are asked for. Whatever happens, nobody waits for ever. */
static void *serve_demand(void *argument)
{
    static const char text[] = {'a', 'b'};
    struct demand_probe *probe = argument;
    struct pollfd ready[] = {{.fd = probe->uffd, .events = POLLIN}, {.fd = probe->done, .events = POLLIN}};
    uint64_t start, end;
    while (poll(ready, 2, PROBE_MS) > 0 && !ready[1].revents) {
        while (uffd_read(probe->uffd, &start, &end) == UFFD_NEWS_WRITE) {
            uint64_t at = start - probe->pages;
            if (pwrite(probe->file, &text[at / PAGE_BYTES], 1, (off_t)at) == 1)
                uffd_map(probe->uffd, start, end);
        }
    }
    uffd_unregister(probe->uffd, probe->pages, probe->pages + 2 * PAGE_BYTES);
    return NULL;
}

/* The kernel reads what is not there yet. */
static bool serves_demand(int uffd, int file, char *pages)
{
    struct demand_probe probe = {uffd, file, eventfd(0, EFD_CLOEXEC), (uintptr_t)pages};
    uint64_t at = probe.pages;
    int ends[2] = {-1, -1};
    char got[2] = {0};
    pthread_t server;
    bool works = false;
    if (probe.done >= 0 && pipe2(ends, O_CLOEXEC) == 0 && pwrite(file, "a", 1, 0) == 1 &&
        uffd_begin(uffd, UFFD_MODE_DEMAND) == 0 &&
        uffd_register(uffd, UFFD_MODE_DEMAND, at, at + 2 * PAGE_BYTES) == 0 &&
        !pthread_create(&server, NULL, serve_demand, &probe)) {
        works = *(volatile char *)pages == 'a' && write(ends[1], pages + PAGE_BYTES, 1) == 1 &&
                read(ends[0], got, 1) == 1 && got[0] == 'b';
        eventfd_write(probe.done, 1);
        pthread_join(server, NULL);
    }
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close(ends[i]);
    if (probe.done >= 0)
        close(probe.done);
    return works;
}

struct probe {
    int uffd, done;
    uint64_t page;
};

/* Lift the protection of one page when its writer comes; whatever happens, he does not wait for ever. */
static void *serve_probe(void *argument)
{
    struct probe *probe = argument;
    struct pollfd ready[] = {{.fd = probe->uffd, .events = POLLIN}, {.fd = probe->done, .events = POLLIN}};
    uint64_t start, end;
    if (poll(ready, 2, PROBE_MS) <= 0 || uffd_read(probe->uffd, &start, &end) != UFFD_NEWS_WRITE ||
        start != probe->page || uffd_protect(probe->uffd, start, end, false))
        uffd_unregister(probe->uffd, probe->page, probe->page + PAGE_BYTES);
    return NULL;
}

/* The kernel writes to the first page. */
static bool is_kernel_served(int uffd, char *pages)
{
    struct probe probe = {uffd, eventfd(0, EFD_CLOEXEC), (uintptr_t)pages};
    int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    pthread_t server;
    bool is_served = false;
    if (probe.done >= 0 && zeros >= 0 && !pthread_create(&server, NULL, serve_probe, &probe)) {
        is_served = read(zeros, pages, 1) == 1;
        eventfd_write(probe.done, 1);
        pthread_join(server, NULL);
    }
    if (probe.done >= 0)
        close(probe.done);
    if (zeros >= 0)
        close(zeros);
    return is_served;
}
