/*
 * signals.c - handlers of all kinds, masks, pending signals, queues of real-time signals, and the ways to
 * take one.
 *
 * Before something would end the process, since a signal has its default disposition, a handler is installed.
 */
#include "tests/histories/time/signals.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/histories/core/choice.h"
#include "tests/histories/files/descriptors.h"
#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/core/world.h"

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31)
#endif

#define CAUGHT_MAX 64
#define ALTERNATE_BYTES (64u << 10)
#define REAL_TIME 5

static struct caught {
    int number, code, value;
    bool is_on_alternate;
    uint64_t mask; /* while the handler ran */
} caught[CAUGHT_MAX];
static volatile sig_atomic_t caught_count;
static char *alternate;
static sigjmp_buf out;
static volatile sig_atomic_t is_jumping;

static int some_signal(void)
{
    return (int)PICK_ONE(SIGUSR1, SIGUSR2, SIGHUP, SIGURG, SIGWINCH, SIGIO, SIGRTMIN, SIGRTMIN + 1,
                         SIGRTMIN + 2, SIGRTMIN + 3, SIGRTMAX);
}

int signals_of_timers(void)
{
    return SIGRTMIN + REAL_TIME;
}

/* The signals of the history, a bit for each: others may be Belay's or the library's. */
static uint64_t bits_of(const sigset_t *set)
{
    static const int known[] = {SIGUSR1, SIGUSR2, SIGHUP, SIGURG, SIGWINCH, SIGIO, SIGPIPE, SIGCHLD, SIGALRM};
    uint64_t bits = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        bits |= (uint64_t)(sigismember(set, known[i]) == 1) << known[i];
    for (int i = 0; i <= REAL_TIME; i++)
        bits |= (uint64_t)(sigismember(set, SIGRTMIN + i) == 1) << (40 + i);
    return bits | (uint64_t)(sigismember(set, SIGRTMAX) == 1) << 63;
}

/* ---- handlers ---- */

static void note_caught(int number, const siginfo_t *info)
{
    char here;
    sigset_t mask;
    struct caught *c = &caught[caught_count];
    if (caught_count == CAUGHT_MAX)
        return;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    *c = (struct caught){.number = number, .mask = bits_of(&mask)};
    c->is_on_alternate = alternate && &here >= alternate && &here < alternate + ALTERNATE_BYTES;
    if (info) {
        c->code = info->si_code;
        c->value = info->si_code == SI_QUEUE ? info->si_value.sival_int : 0;
    }
    caught_count++;
}

static void handle(int number)
{
    note_caught(number, NULL);
    if (is_jumping) {
        is_jumping = 0;
        siglongjmp(out, number);
    }
}

static void handle_info(int number, siginfo_t *info, void *context)
{
    (void)context;
    note_caught(number, info);
}

/* What has been caught in this step. */
static void tell_caught(void)
{
    for (int i = 0; i < caught_count; i++)
        say(" caught %d code %d value %d%s mask %llx", caught[i].number, caught[i].code, caught[i].value,
            caught[i].is_on_alternate ? " alternate" : "", (unsigned long long)caught[i].mask);
    caught_count = 0;
}

static sigset_t some_set(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t count = pick(4); count > 0; count--)
        sigaddset(&set, some_signal());
    return set;
}

/* Perhaps twice, for the process and for the thread: a handler that the first of them resets has to stay. */
static bool is_pending(int number)
{
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, number) == 1;
}

static struct sigaction some_action(int number)
{
    struct sigaction action = {.sa_mask = some_set()};
    bool has_info = chance(60);
    if (has_info)
        action.sa_sigaction = handle_info;
    else
        action.sa_handler = handle;
    action.sa_flags = (has_info ? SA_SIGINFO : 0) | (chance(40) ? SA_RESTART : 0) |
                      (chance(30) ? SA_NODEFER : 0) | (chance(40) ? SA_ONSTACK : 0);
    if (number < SIGRTMIN && chance(25) && choice_has("signals", "reset") && !is_pending(number))
        action.sa_flags |= (int)SA_RESETHAND;
    return action;
}

/* A signal that is about to come must not end the process. */
static void make_harmless(int number)
{
    struct sigaction action;
    sigaction(number, NULL, &action);
    if (action.sa_handler == SIG_DFL && number != SIGURG &&
        number != SIGWINCH) { /* SA_RESETHAND leaves the flags */
        action = some_action(number);
        sigaction(number, &action, NULL);
    }
}

static void make_all_harmless(void)
{
    sigset_t pending;
    sigpending(&pending);
    for (int number = 1; number <= SIGRTMAX; number++)
        if (sigismember(&pending, number) == 1 && number != signals_of_timers() && number != SIGCHLD)
            make_harmless(number);
}

static void act_handle(void)
{
    int number = some_signal();
    size_t way = pick(10);
    struct sigaction action = some_action(number), old;
    say(" %d", number);
    if (way < 8)
        say(" flags %x mask %llx", (unsigned)action.sa_flags, (unsigned long long)bits_of(&action.sa_mask));
    else
        action = (struct sigaction){.sa_handler = way == 8 ? SIG_IGN : SIG_DFL};
    sigset_t pending;
    sigpending(&pending);
    if (sigismember(&pending, number) == 1 && way == 9)
        return;
    answer(sigaction(number, &action, &old));
    say(" old %x %llx %s", (unsigned)old.sa_flags, (unsigned long long)bits_of(&old.sa_mask),
        old.sa_flags & SA_SIGINFO   ? "info"
        : old.sa_handler == SIG_DFL ? "default"
        : old.sa_handler == SIG_IGN ? "ignored"
                                    : "handler");
}

static void act_signal(void)
{
    int number = some_signal();
    say(" %d", number);
    answer(signal(number, handle) == SIG_ERR ? -1 : 0);
}

static void act_alternate(void)
{
    stack_t stack = {.ss_flags = SS_DISABLE}, old;
    if (!alternate)
        alternate = malloc(ALTERNATE_BYTES);
    if (chance(70))
        stack = (stack_t){
            .ss_sp = alternate, .ss_size = ALTERNATE_BYTES, .ss_flags = chance(20) ? (int)SS_AUTODISARM : 0};
    answer(sigaltstack(&stack, &old));
    say(" old %x %zu", (unsigned)old.ss_flags, old.ss_flags & SS_DISABLE ? 0 : old.ss_size);
}

/* ---- masks ---- */

static void act_mask(void)
{
    int how = (int)PICK_ONE(SIG_BLOCK, SIG_BLOCK, SIG_UNBLOCK, SIG_SETMASK);
    sigset_t set = some_set(), old;
    sigdelset(&set, signals_of_timers());
    if (how != SIG_BLOCK)
        make_all_harmless();
    if (how == SIG_SETMASK)
        sigaddset(&set, signals_of_timers());
    say(" %d %llx", how, (unsigned long long)bits_of(&set));
    answer(chance(50) ? sigprocmask(how, &set, &old) : pthread_sigmask(how, &set, &old));
    say(" old %llx", (unsigned long long)bits_of(&old));
    tell_caught();
}

/* ---- sent ---- */

/* One that is pending for the process and for the thread comes twice, and a handler may be reset by the
 * first. */
static bool is_pending_once(int number)
{
    struct sigaction action;
    sigaction(number, NULL, &action);
    return is_pending(number) && action.sa_flags & (int)SA_RESETHAND;
}

static void send(int number, size_t way, int value)
{
    make_harmless(number);
    if (is_pending_once(number))
        return;
    if (way == 0)
        answer(raise(number));
    else if (way == 1)
        answer(kill(getpid(), number));
    else if (way == 2)
        answer(sigqueue(getpid(), number, (union sigval){.sival_int = value}));
    else if (way == 3)
        answer(pthread_kill(pthread_self(), number));
    else if (way == 4)
        answer(pthread_sigqueue(pthread_self(), number, (union sigval){.sival_int = value}));
    else
        answer(tgkill(getpid(), gettid(), number));
}

static void act_send(void)
{
    int number = some_signal();
    size_t way = pick(6);
    say(" %d way %zu", number, way);
    send(number, way, (int)pick(1000));
    tell_caught();
}

static void act_queue(void)
{
    int number = SIGRTMIN + (int)pick(4);
    say(" %d", number);
    for (size_t count = 1 + pick(5); count > 0; count--)
        send(number, chance(50) ? 2 : 4, (int)pick(1000));
    tell_caught();
}

/* ---- taken ---- */

static void tell_taken(const siginfo_t *info)
{
    say(" %d code %d value %d", info->si_signo, info->si_code,
        info->si_code == SI_QUEUE ? info->si_value.sival_int : 0);
}

/* Those of the set that are blocked, so that they can be waited for. */
static sigset_t blocked_set(void)
{
    sigset_t set = some_set(), mask, both;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    sigandset(&both, &set, &mask);
    sigdelset(&both, signals_of_timers());
    return both;
}

static void act_take(void)
{
    sigset_t set = blocked_set();
    siginfo_t info;
    const struct timespec none = {0, 0};
    say(" of %llx", (unsigned long long)bits_of(&set));
    if (answer(sigtimedwait(&set, &info, &none)) > 0)
        tell_taken(&info);
}

/* With everything blocked, a thread of the process's own that only waits: the main thread itself. */
static void act_wait_full(void)
{
    sigset_t all, old, set;
    int number = some_signal(), got = 0;
    sigfillset(&all);
    sigemptyset(&set);
    sigaddset(&set, number);
    make_harmless(number);
    sigprocmask(SIG_SETMASK, &all, &old);
    answer(kill(getpid(), number));
    if (sigwait(&set, &got) == 0)
        say(" took %d", got);
    make_all_harmless();
    sigprocmask(SIG_SETMASK, &old, NULL);
    tell_caught();
}

static void act_suspend(void)
{
    int number = some_signal();
    sigset_t block, old, wait;
    say(" %d", number);
    sigemptyset(&block);
    sigaddset(&block, number);
    sigprocmask(SIG_BLOCK, &block, &old);
    struct sigaction action = some_action(number);
    sigaction(number, &action, NULL);
    send(number, pick(6), 5);
    sigfillset(&wait);
    sigdelset(&wait, number);
    answer(sigsuspend(&wait));
    make_all_harmless();
    sigprocmask(SIG_SETMASK, &old, NULL);
    tell_caught();
}

static void act_jump(void)
{
    int number = (int)PICK_ONE(SIGUSR1, SIGUSR2, SIGHUP);
    struct sigaction action = {.sa_handler = handle, .sa_flags = chance(50) ? SA_ONSTACK : 0};
    sigset_t set, old;
    volatile int landed;
    sigemptyset(&set);
    sigaddset(&set, number);
    sigaction(number, &action, NULL);
    make_all_harmless();
    sigprocmask(SIG_UNBLOCK, &set, &old);
    is_jumping = 0;
    caught_count = 0;
    landed = sigsetjmp(out, 1);
    if (landed == 0) {
        is_jumping = 1;
        raise(number);
    }
    is_jumping = 0;
    say(" landed %d", landed);
    tell_caught();
    sigprocmask(SIG_SETMASK, &old, NULL);
}

/* ---- by descriptors ---- */

static void act_signalfd(void)
{
    sigset_t set = some_set();
    sigdelset(&set, signals_of_timers());
    say(" %llx", (unsigned long long)bits_of(&set));
    struct descriptor *d = chance(30) ? descriptor_pick(DESCRIPTOR_SIGNAL) : NULL;
    int fd = signalfd(d ? d->number : -1, &set, SFD_NONBLOCK | (chance(50) ? SFD_CLOEXEC : 0));
    answer(fd < 0 ? -1 : 0);
    if (!d)
        descriptor_keep(fd, DESCRIPTOR_SIGNAL);
}

static void act_read_signalfd(void)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_SIGNAL);
    struct signalfd_siginfo info;
    if (!d || !descriptor_is_ready(d, 1 /* POLLIN */))
        return;
    if (answer(read(d->number, &info, sizeof info)) == sizeof info)
        say(" %u code %d value %d", info.ssi_signo, info.ssi_code,
            info.ssi_code == SI_QUEUE ? info.ssi_int : 0);
}

static const struct operation operations[] = {
    {"handle", 10, act_handle},
    {"signal", 2, act_signal},
    {"alternate", 2, act_alternate},
    {"mask", 10, act_mask},
    {"send", 12, act_send},
    {"queue", 4, act_queue},
    {"take", 5, act_take},
    {"wait_full", 2, act_wait_full},
    {"suspend", 3, act_suspend},
    {"jump", 2, act_jump},
    {"signalfd", 3, act_signalfd},
    {"read_signalfd", 4, act_read_signalfd},
    {"reset", 0, NULL}, /* SA_RESETHAND, a part of others */
    {NULL, 0, NULL},
};

static void begin(void)
{
    sigset_t timers;
    signal(SIGINT, SIG_DFL); /* a shell has its background jobs ignore these */
    signal(SIGQUIT, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&timers);
    sigaddset(&timers, signals_of_timers());
    sigprocmask(SIG_BLOCK, &timers, NULL);
}

static void observe(void)
{
    sigset_t mask, pending;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    sigpending(&pending);
    note("blocked %llx, pending %llx", (unsigned long long)bits_of(&mask),
         (unsigned long long)bits_of(&pending));
    for (int number = 1; number <= SIGRTMAX; number++) {
        struct sigaction action;
        if (number == SIGSYS || (number > SIGRTMIN + REAL_TIME && number < SIGRTMAX) ||
            sigaction(number, NULL, &action))
            continue;
        bool is_mine = action.sa_handler == handle || action.sa_sigaction == handle_info;
        if (is_mine || action.sa_handler == SIG_IGN)
            note("%d flags %x mask %llx %s", number, (unsigned)action.sa_flags,
                 (unsigned long long)bits_of(&action.sa_mask), is_mine ? "caught" : "ignored");
    }
}

const struct kind kind_signals = {"signals", operations, .begin = begin, .observe = observe};
