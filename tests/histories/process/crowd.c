/*
 * crowd.c - much of one kind at once: hundreds of open files, thousands of mappings, tens of timers. A crowd
 * stays for some steps.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/core/world.h"

#define MAPPINGS 3000 /* a page that may be written, one that may not */
#define TIMERS 60

static struct {
    int count;
    bool are_files;
} open_ones;
static char *mappings;
static uint32_t mapping_number;
static timer_t timers[TIMERS];
static int timer_count;

/* ---- descriptors ---- */

static int one_more(int i)
{
    char path[PATH_MAX];
    if (!open_ones.are_files)
        return eventfd((unsigned)i, EFD_CLOEXEC | EFD_NONBLOCK);
    snprintf(path, sizeof path, "%.*s/crowd-%d", PATH_MAX - 32, world.base, i % 7);
    return open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

static void open_all(int count)
{
    open_ones.are_files = chance(50);
    for (int i = 0; i < count; i++) {
        int fd = one_more(i);
        if (fd < 0 || dup3(fd, CROWD_NUMBER + i, O_CLOEXEC) < 0)
            count = 0; /* a limit forbids it */
        if (fd >= 0)
            close(fd);
        open_ones.count = i + (count > 0);
    }
}

static void close_all(void)
{
    answer(close_range(CROWD_NUMBER, (unsigned)(CROWD_NUMBER + open_ones.count - 1), 0));
    open_ones.count = 0;
}

static void act_descriptors(void)
{
    int count = 50 + (int)pick(CROWD_MAX - 50);
    if (open_ones.count > 0)
        close_all();
    else
        open_all(count);
    say(" %d", open_ones.count);
}

static void act_use(void)
{
    uint64_t value = 0;
    if (open_ones.count == 0)
        return;
    int number = CROWD_NUMBER + (int)pick((size_t)open_ones.count);
    if (open_ones.are_files)
        answer(write(number, "used\n", 5));
    else if (answer(read(number, &value, sizeof value)) > 0)
        say(" %llu", (unsigned long long)value);
}

/* ---- mappings ---- */

static void act_mappings(void)
{
    if (mappings) {
        answer(munmap(mappings, 2 * MAPPINGS * PAGE));
        mappings = NULL;
        return;
    }
    mapping_number = (uint32_t)roll();
    mappings = mmap(NULL, 2 * MAPPINGS * PAGE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (size_t i = 0; i < MAPPINGS; i++) {
        uint32_t number = mapping_number + (uint32_t)i;
        if (i % 16 == 0)
            memcpy(mappings + 2 * i * PAGE, &number, sizeof number);
        mprotect(mappings + (2 * i + 1) * PAGE, PAGE, i % 2 ? PROT_NONE : PROT_READ);
    }
}

/* ---- timers ---- */

static void act_timers(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    for (int i = 0; i < timer_count; i++)
        timer_delete(timers[i]);
    if (timer_count > 0) {
        timer_count = 0;
        return;
    }
    for (; timer_count < TIMERS && timer_create(CLOCK_MONOTONIC, &event, &timers[timer_count]) == 0;
         timer_count++) {
        const struct itimerspec spec = {.it_value = {5000 + timer_count, 0}};
        timer_settime(timers[timer_count], 0, &spec, NULL);
    }
    say(" %d", timer_count);
}

static const struct operation operations[] = {
    {"descriptors", 2, act_descriptors}, {"use", 4, act_use}, {"mappings", 1, act_mappings},
    {"timers", 1, act_timers},           {NULL, 0, NULL},
};

static void observe(void)
{
    int there = 0, far = 0, wrong_ones = 0;
    for (int i = 0; i < open_ones.count; i++)
        there += fcntl(CROWD_NUMBER + i, F_GETFD) == FD_CLOEXEC;
    for (int i = 0; i < timer_count; i++) {
        struct itimerspec left;
        far += timer_gettime(timers[i], &left) == 0 && left.it_value.tv_sec > 3000;
    }
    for (size_t i = 0; mappings && i < MAPPINGS; i++) {
        uint32_t number = i % 16 == 0 ? mapping_number + (uint32_t)i : 0;
        wrong_ones += memcmp(mappings + 2 * i * PAGE, &number, sizeof number) != 0;
    }
    note("open %d, timers %d", there, far);
    if (wrong_ones > 0)
        wrong("%d of many mappings", wrong_ones);
}

static void end(void)
{
    if (open_ones.count > 0)
        close_all();
}

const struct kind kind_crowd = {"crowd", operations, .observe = observe, .end = end};
