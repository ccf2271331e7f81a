#include "common/util/uffd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
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

int uffd_make(void)
{
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        fd = make_by_device();
    return fd >= 0 ? fd : (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | USER_MODE_ONLY);
}

int uffd_begin(int uffd, enum uffd_mode mode)
{
    static const uint64_t features[] = {
        [UFFD_MODE_ASYNC] = FEATURE_WP_ASYNC | FEATURE_WP_UNPOPULATED,
        [UFFD_MODE_SERVED] = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_EVENT_REMAP,
        [UFFD_MODE_GUARD] = UFFD_FEATURE_PAGEFAULT_FLAG_WP | FEATURE_WP_UNPOPULATED,
    };
    struct uffdio_api api = {.api = UFFD_API, .features = features[mode]};
    return ioctl(uffd, UFFDIO_API, &api);
}

int uffd_register(int uffd, enum uffd_mode mode, uint64_t start, uint64_t end)
{
    struct uffdio_register range = {.range = {start, end - start}, .mode = UFFDIO_REGISTER_MODE_WP};
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
