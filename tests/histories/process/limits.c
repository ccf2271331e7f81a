/*
 * limits.c - resource limits, and what they do.
 */
#include <signal.h>
#include <sys/resource.h>

#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/core/world.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))
#define GIB (1ul << 30)

static const struct limit {
    int which;
    rlim_t low, high; /* what it is set to */
} limits[] = {
    {RLIMIT_CORE, 0, GIB},
    {RLIMIT_CPU, 100000, 200000},
    {RLIMIT_STACK, 8ul << 20, 16ul << 20},
    {RLIMIT_MSGQUEUE, 100000, 819200},
    {RLIMIT_RTPRIO, 0, 0},
    {RLIMIT_MEMLOCK, 64ul << 20, 128ul << 20},
};
static bool is_set[COUNT(limits)], has_file_size, has_descriptors, has_space;

static void set(int which, rlim_t value)
{
    struct rlimit limit;
    getrlimit(which, &limit);
    limit.rlim_cur = value < limit.rlim_max ? value : limit.rlim_max;
    say(" %llu", (unsigned long long)limit.rlim_cur);
    answer(setrlimit(which, &limit));
}

static void reset(int which)
{
    struct rlimit limit;
    getrlimit(which, &limit);
    limit.rlim_cur = limit.rlim_max;
    answer(setrlimit(which, &limit));
}

static void act_set(void)
{
    size_t i = pick(COUNT(limits));
    const struct limit *l = &limits[i];
    say(" %d", l->which);
    set(l->which, l->low + pick(l->high - l->low + 1));
    is_set[i] = true;
}

/* Files that grow beyond it: EFBIG, since SIGXFSZ is ignored. */
static void act_file_size(void)
{
    has_file_size = chance(60);
    if (has_file_size)
        set(RLIMIT_FSIZE, (rlim_t)pick_between(40000, 300000));
    else
        reset(RLIMIT_FSIZE);
}

/* Some of the numbers that the history likes are beyond it. */
static void act_descriptors(void)
{
    has_descriptors = chance(60);
    set(RLIMIT_NOFILE, has_descriptors ? (rlim_t)pick_between(FIRST_NUMBER + 5, FIRST_NUMBER + 60) : 2000);
}

/* Of address space: more than the history takes. */
static void act_space(void)
{
    int which = chance(50) ? RLIMIT_AS : RLIMIT_DATA;
    has_space = chance(60);
    if (has_space)
        set(which, 300 * GIB);
    else
        reset(which);
}

static const struct operation operations[] = {
    {"set", 3, act_set},
    {"file_size", 3, act_file_size},
    {"descriptors", 3, act_descriptors},
    {"space", 1, act_space},
    {NULL, 0, NULL},
};

static void begin(void)
{
    signal(SIGXFSZ, SIG_IGN);
}

static void observe_limit(int which)
{
    struct rlimit limit;
    getrlimit(which, &limit);
    note("limit %d: %llx of %llx", which, (unsigned long long)limit.rlim_cur,
         (unsigned long long)limit.rlim_max);
}

static void observe(void)
{
    for (size_t i = 0; i < COUNT(limits); i++)
        if (is_set[i])
            observe_limit(limits[i].which);
    if (has_file_size)
        observe_limit(RLIMIT_FSIZE);
    if (has_descriptors)
        observe_limit(RLIMIT_NOFILE);
    if (has_space)
        observe_limit(RLIMIT_AS);
}

static void end(void)
{
    reset(RLIMIT_FSIZE);
}

const struct kind kind_limits = {"limits", operations, .begin = begin, .observe = observe, .end = end};
