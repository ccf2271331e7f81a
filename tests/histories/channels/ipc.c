/*
 * ipc.c - semaphores and message queues, of System V and POSIX. They live in the kernel; those with names
 * have none any more after they have been made.
 */
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <unistd.h>

#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/core/world.h"

#define SETS 3
#define QUEUES 3
#define TEXT_MAX 200
#define MESSAGES_MAX 8

struct message {
    long kind;
    char text[TEXT_MAX];
};

static struct {
    bool is_there;
    int id;
} sets[SETS], queues[QUEUES];
static mqd_t posix_queue = -1;
static sem_t *named = SEM_FAILED;

/* Whoever runs the history removes what a killed process could not. */
static void tell_id(const char *what, int id)
{
    FILE *file;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.*s/ipc-%d", PATH_MAX - 32, world.top, world.rank);
    file = fopen(path, "ae");
    fprintf(file, "%s %d\n", what, id);
    fclose(file);
}

/* ---- System V ---- */

static void act_set(void)
{
    size_t i = pick(SETS);
    say(" %zu", i);
    if (sets[i].is_there) {
        answer(semctl(sets[i].id, 0, IPC_RMID));
        sets[i].is_there = false;
        return;
    }
    sets[i].id = semget(IPC_PRIVATE, 3, IPC_CREAT | 0600);
    sets[i].is_there = answer(sets[i].id < 0 ? -1 : 0) == 0;
    if (sets[i].is_there)
        tell_id("sem", sets[i].id);
}

static void act_operate(void)
{
    size_t i = pick(SETS);
    struct sembuf steps[2] = {{(unsigned short)pick(3), (short)pick_between(-2, 3), IPC_NOWAIT},
                              {(unsigned short)pick(3), (short)pick_between(-2, 3), IPC_NOWAIT}};
    say(" %zu %d %d", i, steps[0].sem_op, steps[1].sem_op);
    if (sets[i].is_there)
        answer(semop(sets[i].id, steps, 2));
}

static void act_queue(void)
{
    size_t i = pick(QUEUES);
    say(" %zu", i);
    if (queues[i].is_there) {
        answer(msgctl(queues[i].id, IPC_RMID, NULL));
        queues[i].is_there = false;
        return;
    }
    queues[i].id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
    queues[i].is_there = answer(queues[i].id < 0 ? -1 : 0) == 0;
    if (queues[i].is_there)
        tell_id("msg", queues[i].id);
}

static void act_put(void)
{
    size_t i = pick(QUEUES), bytes = 1 + pick(TEXT_MAX);
    struct message message = {.kind = pick_between(1, 3)};
    struct msqid_ds state;
    memcpy(message.text, some_bytes(bytes), bytes);
    say(" %zu kind %ld", i, message.kind);
    if (queues[i].is_there && !msgctl(queues[i].id, IPC_STAT, &state) && state.msg_qnum < MESSAGES_MAX)
        answer(msgsnd(queues[i].id, &message, bytes, IPC_NOWAIT));
}

static void act_get(void)
{
    size_t i = pick(QUEUES);
    struct message message;
    long kind = pick_between(-2, 3);
    say(" %zu kind %ld", i, kind);
    if (!queues[i].is_there)
        return;
    long bytes = answer(msgrcv(queues[i].id, &message, TEXT_MAX, kind, IPC_NOWAIT));
    if (bytes > 0)
        say_bytes(message.text, (size_t)bytes);
}

/* ---- POSIX ---- */

static void act_posix_queue(void)
{
    char name[64];
    struct mq_attr attributes = {.mq_maxmsg = MESSAGES_MAX, .mq_msgsize = TEXT_MAX};
    if (posix_queue != -1) {
        answer(mq_close(posix_queue));
        posix_queue = -1;
        return;
    }
    snprintf(name, sizeof name, "/history-%d", getpid());
    posix_queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL | O_NONBLOCK, 0600, &attributes);
    answer(posix_queue == -1 ? -1 : 0);
    mq_unlink(name);
}

static void act_posix_put(void)
{
    size_t bytes = 1 + pick(TEXT_MAX);
    if (posix_queue != -1)
        answer(mq_send(posix_queue, some_bytes(bytes), bytes, (unsigned)pick(5)));
}

static void act_posix_get(void)
{
    char text[TEXT_MAX];
    unsigned priority = 0;
    if (posix_queue == -1)
        return;
    long bytes = answer(mq_receive(posix_queue, text, sizeof text, &priority));
    if (bytes > 0)
        say_bytes(text, (size_t)bytes);
}

/* A file of /dev/shm, mapped shared, without a name. */
static void act_named(void)
{
    char name[64];
    if (named != SEM_FAILED && chance(20)) {
        answer(sem_close(named));
        named = SEM_FAILED;
    }
    snprintf(name, sizeof name, "/history-%d", getpid());
    if (named == SEM_FAILED) {
        named = sem_open(name, O_CREAT | O_EXCL, 0600, (unsigned)pick(3));
        answer(named == SEM_FAILED ? -1 : 0);
        sem_unlink(name);
    } else if (chance(50)) {
        answer(sem_post(named));
    } else {
        answer(sem_trywait(named));
    }
}

static const struct operation operations[] = {
    {"set", 2, act_set},
    {"operate", 4, act_operate},
    {"queue", 2, act_queue},
    {"put", 4, act_put},
    {"get", 3, act_get},
    {"posix_queue", 1, act_posix_queue},
    {"posix_put", 3, act_posix_put},
    {"posix_get", 2, act_posix_get},
    {"named", 3, act_named},
    {NULL, 0, NULL},
};

static void observe_queue(size_t i)
{
    struct msqid_ds state;
    if (msgctl(queues[i].id, IPC_STAT, &state))
        note("queue %zu: %s", i, error_name(errno));
    else
        note("queue %zu: %lu messages, %lu bytes", i, (unsigned long)state.msg_qnum,
             (unsigned long)state.__msg_cbytes);
}

static void observe(void)
{
    for (size_t i = 0; i < SETS; i++)
        if (sets[i].is_there)
            note("set %zu: %d %d %d", i, semctl(sets[i].id, 0, GETVAL), semctl(sets[i].id, 1, GETVAL),
                 semctl(sets[i].id, 2, GETVAL));
    for (size_t i = 0; i < QUEUES; i++)
        if (queues[i].is_there)
            observe_queue(i);
    struct mq_attr attributes = {0};
    if (posix_queue != -1)
        note("posix queue: %d, %ld messages", mq_getattr(posix_queue, &attributes), attributes.mq_curmsgs);
    int value = 0;
    if (named != SEM_FAILED)
        note("semaphore: %d %d", sem_getvalue(named, &value), value);
}

static void end(void)
{
    for (size_t i = 0; i < SETS; i++)
        if (sets[i].is_there)
            semctl(sets[i].id, 0, IPC_RMID);
    for (size_t i = 0; i < QUEUES; i++)
        if (queues[i].is_there)
            msgctl(queues[i].id, IPC_RMID, NULL);
}

const struct kind kind_ipc = {"ipc", operations, .observe = observe, .end = end};
