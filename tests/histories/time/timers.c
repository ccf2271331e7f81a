/*
 * timers.c - timers of all kinds: far ones, which never ring, and near ones, which are waited for at once.
 */
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "tests/histories/files/descriptors.h"
#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/time/signals.h"
#include "tests/histories/core/world.h"

#define TIMERS 12
#define FAR_S 5000
#define LATE_S 1000 /* far timers have not run longer than that */
#define NEAR_NS 300000

static struct timer {
    bool is_there, is_armed, has_signal;
    timer_t id;
    int value;
    long seconds, every;
} timers[TIMERS];

static struct {
    int which;
    long seconds; /* 0: not armed */
} intervals[] = {{ITIMER_REAL, 0}, {ITIMER_VIRTUAL, 0}, {ITIMER_PROF, 0}};

static clockid_t some_clock(void)
{
    return (clockid_t)PICK_ONE(CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME);
}

/* True if a far timer that was set to so many seconds is about where it should be. */
static bool is_near(long left, long set)
{
    return left <= set && left > set - LATE_S;
}

static void act_create(void)
{
    struct timer *t = &timers[pick(TIMERS)];
    if (t->is_there)
        timer_delete(t->id);
    *t = (struct timer){.has_signal = chance(70), .value = (int)pick(1000)};
    struct sigevent event = {.sigev_notify = t->has_signal ? SIGEV_SIGNAL : SIGEV_NONE,
                             .sigev_signo = signals_of_timers(),
                             .sigev_value.sival_int = t->value};
    say(" %d %s", (int)(t - timers), t->has_signal ? "signal" : "none");
    t->is_there = answer(timer_create(some_clock(), &event, &t->id)) == 0;
}

static struct timer *choose(void)
{
    struct timer *t = &timers[pick(TIMERS)];
    say(" %d", (int)(t - timers));
    return t->is_there ? t : NULL;
}

static void act_set_far(void)
{
    struct timer *t = choose();
    long seconds = pick_between(FAR_S, 2 * FAR_S), every = chance(40) ? pick_between(1, 100) : 0;
    const struct itimerspec spec = {.it_value = {seconds, 0}, .it_interval = {every, 0}};
    if (!t)
        return;
    say(" %ld %ld", seconds, every);
    if (answer(timer_settime(t->id, 0, &spec, NULL)) == 0) {
        t->is_armed = true;
        t->seconds = seconds;
        t->every = every;
    }
}

/* Take the signals of a timer that has been stopped. */
static void take_rest(void)
{
    sigset_t set;
    const struct timespec none = {0, 0};
    sigemptyset(&set);
    sigaddset(&set, signals_of_timers());
    while (sigtimedwait(&set, NULL, &none) > 0)
        ;
}

/* Rings at once, perhaps again and again; its first signals are waited for. */
static void act_ring(void)
{
    struct timer *t = choose();
    size_t count = 1 + pick(3);
    sigset_t set;
    siginfo_t info;
    const struct itimerspec spec = {.it_value = {0, NEAR_NS}, .it_interval = {0, NEAR_NS}},
                            stop = {{0, 0}, {0, 0}};
    if (!t || !t->has_signal)
        return;
    sigemptyset(&set);
    sigaddset(&set, signals_of_timers());
    answer(timer_settime(t->id, 0, &spec, NULL));
    for (; count > 0; count--) {
        answer(sigwaitinfo(&set, &info));
        say(" code %d value %d", info.si_code, info.si_value.sival_int);
    }
    timer_settime(t->id, 0, &stop, NULL);
    t->is_armed = false;
    take_rest();
}

static sem_t rung;

static void ring(union sigval value)
{
    (void)value;
    sem_post(&rung);
}

/* A timer whose end is told by a thread; gone again at once. */
static void act_thread(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = ring};
    const struct itimerspec spec = {.it_value = {0, NEAR_NS}};
    timer_t id;
    sem_init(&rung, 0, 0);
    if (answer(timer_create(CLOCK_MONOTONIC, &event, &id)))
        return;
    answer(timer_settime(id, 0, &spec, NULL));
    while (sem_wait(&rung))
        ;
    answer(timer_delete(id));
}

static void act_delete(void)
{
    struct timer *t = choose();
    if (!t)
        return;
    answer(timer_delete(t->id));
    t->is_there = false;
}

/* ---- interval timers ---- */

static void act_interval(void)
{
    size_t i = pick(3);
    long seconds = chance(70) ? pick_between(FAR_S, 2 * FAR_S) : 0;
    const struct itimerval value = {.it_value = {seconds, 0}, .it_interval = {seconds ? 7 : 0, 0}};
    struct itimerval old;
    say(" %zu %ld", i, seconds);
    answer(setitimer(intervals[i].which, &value, &old));
    say(" %s", is_near(old.it_value.tv_sec, intervals[i].seconds) ? "as set" : "not as set");
    intervals[i].seconds = seconds;
}

/* The same timer as ITIMER_REAL. */
static void act_alarm(void)
{
    unsigned seconds = chance(70) ? FAR_S + (unsigned)pick(FAR_S) : 0;
    say(" %u", seconds);
    unsigned old = alarm(seconds);
    say(" %s",
        is_near(old, intervals[0].seconds + 1) || old == intervals[0].seconds ? "as set" : "not as set");
    intervals[0].seconds = seconds;
}

/* ---- descriptors ---- */

static void act_timerfd(void)
{
    int fd = timerfd_create(some_clock(), TFD_NONBLOCK | (chance(50) ? TFD_CLOEXEC : 0));
    answer(fd < 0 ? -1 : 0);
    descriptor_keep(fd, DESCRIPTOR_TIMER);
}

/* Far, near, off, or near and then far; a near one is waited for, and counted by the next read. */
static void act_set_timerfd(void)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_TIMER);
    size_t way = pick(4);
    struct itimerspec spec = {{0, 0}, {0, 0}};
    bool is_waited_for = way % 2;
    if (way == 0)
        spec.it_value.tv_sec = pick_between(FAR_S, 2 * FAR_S);
    else if (is_waited_for)
        spec.it_value.tv_nsec = NEAR_NS;
    if (way == 3)
        spec.it_interval.tv_sec = FAR_S;
    say(" way %zu", way);
    if (!d || answer(timerfd_settime(d->number, 0, &spec, NULL)))
        return;
    while (is_waited_for && !descriptor_is_ready(d, 1 /* POLLIN */))
        nanosleep(&spec.it_value, NULL);
}

static void act_read_timerfd(void)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_TIMER);
    uint64_t count;
    if (d && descriptor_is_ready(d, 1 /* POLLIN */) &&
        answer(read(d->number, &count, sizeof count)) == sizeof count) {
        struct itimerspec left = {{0, 0}, {0, 0}};
        timerfd_gettime(d->number, &left);
        say(" %llu, %s", (unsigned long long)count, left.it_value.tv_sec ? "goes on" : "stands");
    }
}

static const struct operation operations[] = {
    {"create", 4, act_create},
    {"set_far", 4, act_set_far},
    {"ring", 4, act_ring},
    {"thread", 1, act_thread},
    {"delete", 2, act_delete},
    {"interval", 3, act_interval},
    {"alarm", 2, act_alarm},
    {"timerfd", 3, act_timerfd},
    {"set_timerfd", 4, act_set_timerfd},
    {"read_timerfd", 4, act_read_timerfd},
    {NULL, 0, NULL},
};

static void observe_timer(const struct timer *t)
{
    struct itimerspec left;
    if (timer_gettime(t->id, &left)) {
        note("a timer that is not there");
        return;
    }
    note("timer: %s, every %ld",
         !t->is_armed                                ? left.it_value.tv_sec ? "not stopped" : "off"
         : is_near(left.it_value.tv_sec, t->seconds) ? "as set"
                                                     : "not as set",
         (long)left.it_interval.tv_sec);
}

static void observe(void)
{
    for (int i = 0; i < TIMERS; i++)
        if (timers[i].is_there)
            observe_timer(&timers[i]);
    for (int i = 0; i < 3; i++) {
        struct itimerval left;
        getitimer(intervals[i].which, &left);
        note("interval %d: %s", i,
             is_near(left.it_value.tv_sec, intervals[i].seconds) ? "as set" : "not as set");
    }
    for (int i = 0; i < DESCRIPTORS; i++) {
        struct itimerspec left;
        const struct descriptor *d = descriptor_at(i);
        if (d->kind == DESCRIPTOR_TIMER && !timerfd_gettime(d->number, &left))
            note("#%d %s", i, left.it_value.tv_sec > 0 ? "far" : "off");
    }
}

static void end(void)
{
    const struct itimerval none = {{0, 0}, {0, 0}};
    for (int i = 0; i < 3; i++)
        setitimer(intervals[i].which, &none, NULL);
}

const struct kind kind_timers = {"timers", operations, .observe = observe, .end = end};
