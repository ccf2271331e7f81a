#include "node-agent/capture/crew.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/image/image.h"
#include "common/util/threads.h"

#define LEAST_BYTES (16ull << 20) /* for a thread of its own */

struct hand {
    struct run_set pages;
    crew_f copy;
    void *context;
    int rc;
    struct belay_error err;
};

static int share_out(const struct run_set *pages, struct hand *hands, unsigned count);
static void work(void *context, unsigned part);
static unsigned find_processors(pid_t pid, cpu_set_t *all);

int crew_copy(const struct run_set *pages, unsigned threads, crew_f copy, void *context,
              struct belay_error *err)
{
    struct hand hands[CREW_MAX] = {0};
    unsigned count = threads < CREW_MAX ? threads : CREW_MAX;
    if (count <= 1)
        return copy(context, pages, err);
    for (unsigned i = 0; i < count; i++)
        hands[i] = (struct hand){.copy = copy, .context = context};
    int rc = share_out(pages, hands, count);
    if (rc < 0)
        belay_error_errno(err, "cannot note pages");
    if (rc == 0)
        threads_share(count, count, work, hands);
    for (unsigned i = 0; i < count; i++) {
        if (hands[i].rc < 0 && rc == 0) {
            *err = hands[i].err;
            rc = -1;
        }
        runs_release(&hands[i].pages);
    }
    return rc;
}

unsigned crew_size(pid_t pid, uint64_t bytes, const cpu_set_t *main_sets, uint32_t count)
{
    cpu_set_t own, both;
    uint64_t wanted = bytes / LEAST_BYTES;
    unsigned sharers = 0;
    if (wanted <= 1)
        return 1;
    unsigned most = find_processors(pid, &own);
    for (uint32_t i = 0; i < count; i++) {
        CPU_AND(&both, &own, &main_sets[i]);
        sharers += CPU_COUNT(&both) > 0;
    }
    unsigned processors = (unsigned)CPU_COUNT(&own) / (sharers ? sharers : 1);
    most = most < processors ? most : processors;
    most = most < CREW_MAX ? most : CREW_MAX;
    most = wanted < most ? (unsigned)wanted : most;
    return most > 0 ? most : 1;
}

static int share_out(const struct run_set *pages, struct hand *hands, unsigned count)
{
    uint64_t all = runs_bytes(pages), from = 0;
    for (unsigned i = 0; i < count; i++) {
        uint64_t end = runs_address(pages, all / IMAGE_PAGE_BYTES * (i + 1) / count * IMAGE_PAGE_BYTES);
        if (runs_slice(pages, from, i + 1 < count ? end : UINT64_MAX, &hands[i].pages) < 0)
            return -1;
        from = end;
    }
    return 0;
}

static void work(void *context, unsigned part)
{
    struct hand *hand = &((struct hand *)context)[part];
    hand->rc = hand->copy(hand->context, &hand->pages, &hand->err);
}

/* That all its threads together may use, and the agent too. Returns how many threads it has. */
static unsigned find_processors(pid_t pid, cpu_set_t *all)
{
    char name[64];
    cpu_set_t own, set;
    unsigned threads = 0;
    CPU_ZERO(all);
    snprintf(name, sizeof name, "/proc/%d/task", (int)pid);
    DIR *folder = opendir(name);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        pid_t thread = (pid_t)atoi(entry->d_name);
        if (thread <= 0 || sched_getaffinity(thread, sizeof set, &set) < 0)
            continue;
        CPU_OR(all, all, &set);
        threads++;
    }
    if (folder)
        closedir(folder);
    if (sched_getaffinity(0, sizeof own, &own) == 0)
        CPU_AND(all, all, &own);
    return threads;
}
