/*
 * libearly.so - a library whose constructor does what outlives an exec or can be seen from outside: it adds a
 * line to a file, starts an interval timer with a handler, and a thread. One function is chosen when the
 * library is loaded.
 */
#include "tests/programs/early.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static atomic_long ticks, rounds;

static int answer(void)
{
    return 42;
}

static int (*choose_answer(void))(void)
{
    return answer;
}

int early_answer(void) __attribute__((ifunc("choose_answer")));

long early_ticks(void)
{
    return ticks;
}

long early_rounds(void)
{
    return rounds;
}

static void on_tick(int number)
{
    (void)number;
    ticks++;
}

static void *go_round(void *argument)
{
    struct timespec time = {0, 2000000};
    for (;;) {
        nanosleep(&time, NULL);
        rounds++;
    }
    return argument;
}

__attribute__((constructor)) static void begin(void)
{
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 5000}, {0, 5000}};
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    char name[32];
    pthread_t thread;
    snprintf(name, sizeof name, "early-%s", rank ? rank : "0");
    int file = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0 || write(file, "constructed\n", 12) != 12 || pthread_create(&thread, NULL, go_round, NULL))
        abort();
    close(file);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
}
