#include "common/util/threads.h"

#include <pthread.h>
#include <sched.h>

struct sharing {
    threads_f run;
    void *context;
    unsigned parts;
    unsigned next; /* atomic: that nobody has taken */
};

static void *take_parts(void *context)
{
    struct sharing *sharing = context;
    unsigned part;
    while ((part = __atomic_fetch_add(&sharing->next, 1, __ATOMIC_RELAXED)) < sharing->parts)
        sharing->run(sharing->context, part);
    return NULL;
}

void threads_share(unsigned threads, unsigned parts, threads_f run, void *context)
{
    struct sharing sharing = {.run = run, .context = context, .parts = parts};
    pthread_t others[THREADS_MAX];
    unsigned started = 0;
    threads = threads < parts ? threads : parts;
    threads = threads < THREADS_MAX ? threads : THREADS_MAX;
    while (started + 1 < threads && pthread_create(&others[started], NULL, take_parts, &sharing) == 0)
        started++;
    take_parts(&sharing);
    for (unsigned i = 0; i < started; i++)
        pthread_join(others[i], NULL);
}

unsigned threads_processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0 ? (unsigned)CPU_COUNT(&set) : 1;
}
