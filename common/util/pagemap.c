#include "common/util/pagemap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/util/trial.h"

#define PAGE_BYTES 4096ul
#define REGIONS_AT_ONCE 512u /* longer answers repeat pages */

struct scan_argument {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
struct scan_region {
    uint64_t start, end, categories;
};
#define SCAN_IOCTL _IOWR('f', 16, struct scan_argument)
#define SCAN_WP_MATCHING 1u
#define SCAN_CHECK_WPASYNC 2u

int pagemap_scan_told(int pagemap, const struct pagemap_query *query, uint32_t categories,
                      pagemap_told_f told, void *context)
{
    struct scan_region regions[REGIONS_AT_ONCE];
    bool is_checked = (query->arm || query->is_checked) && !query->is_lenient;
    for (uint64_t at = query->start; at < query->end;) {
        struct scan_argument scan = {
            .size = sizeof scan,
            .flags = (query->arm ? SCAN_WP_MATCHING : 0) | (is_checked ? SCAN_CHECK_WPASYNC : 0),
            .start = at,
            .end = query->end,
            .vec = (uintptr_t)regions,
            .vec_len = REGIONS_AT_ONCE,
            .category_inverted = query->none,
            .category_mask = query->all | query->none,
            .category_anyof_mask = query->any,
            .return_mask = categories,
        };
        long count = ioctl(pagemap, SCAN_IOCTL, &scan);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return -1;
        for (long i = 0; told && i < count; i++)
            if (told(context, regions[i].start, regions[i].end, (uint32_t)regions[i].categories) < 0)
                return -1;
        if (scan.walk_end <= at) {
            errno = ESRCH; /* the process has no memory any more */
            return -1;
        }
        at = scan.walk_end;
    }
    return 0;
}

struct finder {
    pagemap_found_f found;
    void *context;
};

static int tell_found(void *context, uint64_t start, uint64_t end, uint32_t categories)
{
    const struct finder *finder = context;
    (void)categories;
    return finder->found(finder->context, start, end);
}

/* Asking for one category only keeps the kernel on its short path. */
int pagemap_scan(int pagemap, const struct pagemap_query *query, pagemap_found_f found, void *context)
{
    struct finder finder = {found, context};
    return pagemap_scan_told(pagemap, query, query->all ? query->all : query->any, found ? tell_found : NULL,
                             &finder);
}

ssize_t pagemap_entries(int pagemap, uint64_t start, uint64_t *entries, size_t count)
{
    ssize_t got;
    do
        got = pread(pagemap, entries, count * sizeof *entries, (off_t)(start / PAGE_BYTES * sizeof *entries));
    while (got < 0 && errno == EINTR);
    if (got >= 0 && got < (ssize_t)sizeof *entries) {
        errno = ESRCH; /* the process has no memory any more */
        return -1;
    }
    return got < 0 ? -1 : got / (ssize_t)sizeof *entries;
}

int soft_dirty_clear(int clear_refs)
{
    return write(clear_refs, "4", 1) == 1 ? 0 : -1;
}

static bool is_marked(int pagemap, const void *page)
{
    uint64_t entry;
    return pagemap_entries(pagemap, (uintptr_t)page, &entry, 1) == 1 && (entry & PAGEMAP_ENTRY_SOFT_DIRTY);
}

bool soft_dirty_works(void)
{
    struct trial trial;
    bool works = trial_open(&trial, PAGE_BYTES, open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC));
    if (works) {
        *(volatile char *)trial.pages = 1;
        works = soft_dirty_clear(trial.tried) == 0 && !is_marked(trial.pagemap, trial.pages);
        *(volatile char *)trial.pages = 2;
        works = works && is_marked(trial.pagemap, trial.pages);
    }
    trial_close(&trial);
    return works;
}
