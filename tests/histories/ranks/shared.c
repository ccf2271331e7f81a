/*
 * shared.c - memory that ranks share: one writes, all read. All ranks do each step together.
 */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/channels/pass.h"
#include "tests/histories/core/world.h"

#define OBJECTS 5
#define OBJECT_BYTES (8 * PAGE)

static struct object {
    char *at; /* NULL: none */
    bool is_system_v;
    bool has_file; /* in the job's folder */
} objects[OBJECTS];

static void barrier(void)
{
    MPI_Barrier(world.comm);
}

static void drop(struct object *o)
{
    if (o->at && (o->is_system_v ? shmdt(o->at) : munmap(o->at, OBJECT_BYTES)))
        wrong("detach: %s", error_name(errno));
    o->at = NULL;
}

static struct object *renew(void)
{
    struct object *o = &objects[pick(OBJECTS)];
    say(" %d", (int)(o - objects));
    drop(o);
    *o = (struct object){.at = NULL};
    return o;
}

static void map(struct object *o, int fd)
{
    o->at = fd < 0 ? MAP_FAILED : mmap(NULL, OBJECT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    answer(o->at == MAP_FAILED ? -1 : 0);
    if (o->at == MAP_FAILED)
        o->at = NULL;
}

/* Rank 0's process id and a number, so that names are nobody else's. */
static void shared_name(char *name, size_t size, const char *format)
{
    long numbers[2] = {getpid(), world.step};
    MPI_Bcast(numbers, 2, MPI_LONG, 0, world.comm);
    snprintf(name, size, format, numbers[0], numbers[1]);
}

/* By a name that goes when all have it. */
static void act_posix(void)
{
    char name[64];
    struct object *o = renew();
    shared_name(name, sizeof name, "/history-%ld-%ld");
    int fd = shm_open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (ftruncate(fd, OBJECT_BYTES))
        wrong("ftruncate: %s", error_name(errno));
    barrier();
    map(o, fd);
    close(fd);
    barrier();
    if (world.rank == 0)
        answer(shm_unlink(name));
    else
        say(" = 0");
}

static void act_system_v(void)
{
    struct object *o = renew();
    int id = world.rank == 0 ? shmget(IPC_PRIVATE, OBJECT_BYTES, IPC_CREAT | 0600) : -1;
    MPI_Bcast(&id, 1, MPI_INT, 0, world.comm);
    o->at = shmat(id, NULL, 0);
    answer(o->at == (void *)-1 ? -1 : 0);
    if (o->at == (void *)-1)
        o->at = NULL;
    o->is_system_v = true;
    barrier();
    if (world.rank == 0)
        shmctl(id, IPC_RMID, NULL);
}

/* A file of the job's folder, which keeps its name. */
static void act_file(void)
{
    char path[PATH_MAX];
    struct object *o = renew();
    snprintf(path, sizeof path, "%.*s/shared-%d", PATH_MAX - 32, world.top, (int)(o - objects));
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (ftruncate(fd, OBJECT_BYTES))
        wrong("ftruncate: %s", error_name(errno));
    barrier();
    map(o, fd);
    close(fd);
    o->has_file = true;
}

/* ---- passed on by a socket ---- */

static struct sockaddr_un address_of(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "%s", name); /* an abstract name: no file */
    return address;
}

static socklen_t length_of(const struct sockaddr_un *address)
{
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(address->sun_path + 1));
}

/* Rank 0 sends each other rank the descriptor. */
static int pass_on(const char *name)
{
    struct sockaddr_un address = address_of(name);
    int listener = -1, fd = -1;
    if (world.rank == 0) {
        listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (bind(listener, (struct sockaddr *)&address, length_of(&address)) || listen(listener, 8))
            say(" no listener");
        fd = memfd_create("shared", MFD_CLOEXEC);
        if (ftruncate(fd, OBJECT_BYTES))
            say(" no size");
    }
    barrier();
    for (int rank = 1; rank < world.ranks && world.rank == 0; rank++) {
        int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        pass_send(peer, fd);
        close(peer);
    }
    if (world.rank > 0) {
        int peer = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(peer, (struct sockaddr *)&address, length_of(&address)) == 0)
            fd = pass_receive(peer);
        close(peer);
    }
    if (listener >= 0)
        close(listener);
    return fd;
}

static void act_passed(void)
{
    char name[64];
    struct object *o = renew();
    shared_name(name, sizeof name, "history-%ld-%ld");
    int fd = pass_on(name);
    map(o, fd);
    close(fd);
    barrier();
}

/* ---- used ---- */

static void act_write(void)
{
    struct object *o = &objects[pick(OBJECTS)];
    int writer = (int)pick((size_t)world.ranks);
    size_t from = pick(OBJECT_BYTES - 1), bytes = 1 + pick(OBJECT_BYTES - from);
    const void *data = some_bytes(bytes);
    say(" %d", (int)(o - objects));
    if (!o->at)
        return;
    barrier();
    if (world.rank == writer)
        memcpy(o->at + from, data, bytes);
    barrier();
    say_bytes(o->at, OBJECT_BYTES);
    barrier();
}

/* Each adds to the same words. */
static void act_add(void)
{
    struct object *o = &objects[pick(OBJECTS)];
    size_t word = pick(OBJECT_BYTES / 8);
    uint64_t number = roll() % 1000;
    say(" %d", (int)(o - objects));
    if (!o->at)
        return;
    barrier();
    __atomic_add_fetch((uint64_t *)(void *)o->at + word, number * (uint64_t)(world.rank + 1),
                       __ATOMIC_SEQ_CST);
    barrier();
    say_bytes(o->at, OBJECT_BYTES);
}

static void act_drop(void)
{
    renew();
}

/* A file that all ranks append to and write over, each its own part. */
static void act_common_file(void)
{
    char path[PATH_MAX], data[3000];
    struct stat stat;
    size_t part = pick(20);
    uint64_t number = roll();
    snprintf(path, sizeof path, "%.*s/common", PATH_MAX - 32, world.top);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    fill(data, sizeof data, number + (uint64_t)world.rank);
    barrier();
    long at = (long)(part * (size_t)world.ranks + (size_t)world.rank) * (long)sizeof data;
    answer(pwrite(fd, data, sizeof data, at));
    barrier();
    long left =
        (long)(part * (size_t)world.ranks + (size_t)((world.rank + 1) % world.ranks)) * (long)sizeof data;
    answer(pread(fd, data, sizeof data, left));
    say_bytes(data, sizeof data);
    if (fstat(fd, &stat) == 0)
        say(" size %ld", (long)stat.st_size);
    close(fd);
    barrier();
}

static const struct operation operations[] = {
    {"posix", 2, act_posix}, {"system_v", 2, act_system_v},
    {"file", 2, act_file},   {"passed", 2, act_passed},
    {"write", 6, act_write}, {"add", 4, act_add},
    {"drop", 1, act_drop},   {"common_file", 2, act_common_file},
    {NULL, 0, NULL},
};

/* Nobody writes between two steps, but others may be at an earlier one; so each looks at what it has written
 * last. */
static void end(void)
{
    char path[PATH_MAX];
    barrier();
    for (int i = 0; i < OBJECTS; i++) {
        if (objects[i].at)
            drop(&objects[i]);
        snprintf(path, sizeof path, "%.*s/shared-%d", PATH_MAX - 32, world.top, i);
        unlink(path);
    }
    snprintf(path, sizeof path, "%.*s/common", PATH_MAX - 32, world.top);
    unlink(path);
}

const struct kind kind_shared = {.name = "shared", .operations = operations, .is_common = true, .end = end};
