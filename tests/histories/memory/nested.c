/*
 * nested.c - nested functions, an extension of GCC: their addresses are those of code on the stack, so a
 * program that has them has executable stacks. Linked only with history_nested.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"

#define NUMBERS 50

static void nap(void)
{
    nanosleep(&(const struct timespec){0, 200000}, NULL);
}

/* Sort by an order that only the caller knows. */
static long sort_by(long pivot, long *numbers)
{
    int compare(const void *a, const void *b)
    {
        long x = labs(*(const long *)a - pivot), y = labs(*(const long *)b - pivot);
        return (x > y) - (x < y);
    }
    nap();
    qsort(numbers, NUMBERS, sizeof *numbers, compare);
    return numbers[0] + 3 * numbers[NUMBERS - 1];
}

static void act_sort(void)
{
    long numbers[NUMBERS], pivot = (long)pick(1000);
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = (long)pick(1000);
    say(" %ld", sort_by(pivot, numbers));
}

static long twice(long (*function)(long), long depth)
{
    nap();
    return depth > 0 ? twice(function, depth - 1) + 1 : function(function(5));
}

static long call_deep(long number)
{
    long add(long x)
    {
        return x + number;
    }
    return twice(add, number % 20);
}

static void act_deep(void)
{
    say(" %ld", call_deep((long)pick(1000)));
}

static void *in_thread(void *number)
{
    *(long *)number = call_deep(*(long *)number);
    return NULL;
}

static void act_thread(void)
{
    long number = (long)pick(1000);
    pthread_t id;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    answer_error(pthread_create(&id, NULL, in_thread, &number));
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_join(id, NULL);
    say(" %ld", number);
}

static const struct operation operations[] = {
    {"sort", 8, act_sort},
    {"deep", 8, act_deep},
    {"thread", 4, act_thread},
    {NULL, 0, NULL},
};

const struct kind kind_nested = {.name = "nested", .operations = operations};
