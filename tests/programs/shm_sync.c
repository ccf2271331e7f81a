/*
 * shm_sync - what ranks synchronise with, other than MPI: mutexes, conditions, barriers and futexes in shared
 * memory, semaphores by name and in memory, System V semaphores and messages, pipes, eventfds, and locks on
 * files.
 *
 * All of it is in use in every step, some of it across steps: locks are held, messages and values wait,
 * threads wait in the kernel. Counters that only a lock protects, and the messages' texts, make the result.
 *
 * --mode across, with four ranks: a rank waits for a mutex, and below the target of a line, that another one
 * has while it comes to a collective beyond the target.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <mpi.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/program.h"

#define ROUNDS 20    /* that each rank counts in a step */
#define HOLD_STEPS 5 /* that a rank holds its locks */
#define LATE_STEPS 3 /* that a message waits for */
#define SET_SEMS 4
#define RANGE 100 /* bytes of the locked file for each rank */

enum { BY_MUTEX, BY_ROBUST, BY_SPIN, BY_NAMED, BY_UNNAMED, BY_SET, BY_FLOCK, BY_RANGE, COUNTERS };

struct shared {
    pthread_mutex_t mutex, robust, turn_lock;
    pthread_cond_t turn_changed;
    pthread_barrier_t barrier;
    pthread_spinlock_t spin;
    sem_t unnamed, wanted, done; /* a thread of each rank waits for `wanted` */
    long turn;
    uint32_t futex;
    long counters[COUNTERS];
    long served;
    long locked, taken; /* steps in which the mutex was, --mode across */
};

struct message {
    long type;
    char text[56];
};

static struct program program;
static struct shared *shared;
static sem_t *named, *counted;
static int set, queue, locked_fd, range_fd, ofd, own_fd;
static int fifo_reader, fifo_writer, pipe_reader, pipe_writer, event;
static char named_name[64], counted_name[64];
static pthread_t waiter;
static bool is_over;

static void expect(bool is_right, const char *what, long step)
{
    if (!is_right)
        fail(&program, "%s is wrong in step %ld (errno %d)", what, step, errno);
}

static void wait_for_all(void)
{
    check_mpi(&program, MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
}

static long number_for_all(long number)
{
    MPI_Bcast(&number, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    return number;
}

/* ---- making ---- */

static void make_objects(void)
{
    pthread_mutexattr_t mutex;
    pthread_condattr_t condition;
    pthread_barrierattr_t barrier;
    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&shared->mutex, &mutex);
    pthread_mutex_init(&shared->turn_lock, &mutex);
    pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&shared->robust, &mutex);
    pthread_condattr_init(&condition);
    pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&shared->turn_changed, &condition);
    pthread_barrierattr_init(&barrier);
    pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &barrier, (unsigned)program.ranks);
    pthread_spin_init(&shared->spin, PTHREAD_PROCESS_SHARED);
    sem_init(&shared->unnamed, 1, 1);
    sem_init(&shared->wanted, 1, 0);
    sem_init(&shared->done, 1, 0);
}

static void make_shared(void)
{
    char name[64];
    long pid = number_for_all(getpid());
    int fd = -1;
    snprintf(name, sizeof name, "/shm-sync-%ld", pid);
    snprintf(named_name, sizeof named_name, "/shm-sync-sem-%ld", pid);
    snprintf(counted_name, sizeof counted_name, "/shm-sync-count-%ld", pid);
    if (program.rank == 0) {
        fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
        expect(ftruncate(fd, sizeof *shared) == 0, "ftruncate", 0);
        expect(sem_open(named_name, O_CREAT | O_EXCL, 0600, 1) != SEM_FAILED &&
                   sem_open(counted_name, O_CREAT | O_EXCL, 0600, 0) != SEM_FAILED,
               "sem_open", 0);
    }
    wait_for_all();
    if (program.rank > 0)
        fd = shm_open(name, O_RDWR, 0600);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    expect(shared != MAP_FAILED, "mmap", 0);
    close(fd);
    if (program.rank == 0)
        make_objects();
    named = sem_open(named_name, 0);
    counted = sem_open(counted_name, 0);
    expect(named != SEM_FAILED && counted != SEM_FAILED, "sem_open", 0);
    wait_for_all();
    if (program.rank == 0)
        shm_unlink(name);
}

static void make_system_v(void)
{
    if (program.rank == 0) {
        set = semget(IPC_PRIVATE, SET_SEMS, 0600);
        queue = msgget(IPC_PRIVATE, 0600);
        expect(set >= 0 && queue >= 0 && semctl(set, 0, SETVAL, 1) == 0, "System V objects", 0);
    }
    set = (int)number_for_all(set);
    queue = (int)number_for_all(queue);
}

/* Each rank has its own descriptors of them. */
static void make_locked_files(void)
{
    char own[64];
    snprintf(own, sizeof own, "shm-sync-own-%d", program.rank);
    locked_fd = open("shm-sync-locked", O_RDWR | O_CREAT, 0600);
    range_fd = open("shm-sync-ranges", O_RDWR | O_CREAT, 0600);
    ofd = open("shm-sync-ofd", O_RDWR | O_CREAT, 0600);
    own_fd = open(own, O_WRONLY | O_CREAT, 0600); /* it has to be opened by others to be read */
    expect(locked_fd >= 0 && range_fd >= 0 && ofd >= 0 && own_fd >= 0, "a file to be locked", 0);
    if (program.rank == 0)
        expect(ftruncate(locked_fd, 4096) == 0 && ftruncate(range_fd, 4096) == 0, "ftruncate", 0);
    expect(ftruncate(own_fd, 100000) == 0, "ftruncate", 0);
    wait_for_all();
}

static void name_fifo(int rank, char name[32])
{
    snprintf(name, 32, "fifo-%d", rank);
}

/* Each rank reads from its own FIFO, and writes to that of the next. */
static void make_fifos(void)
{
    char own[32], other[32];
    name_fifo(program.rank, own);
    name_fifo((program.rank + 1) % program.ranks, other);
    unlink(own);
    expect(mkfifo(own, 0600) == 0, "mkfifo", 0);
    fifo_reader = open(own, O_RDONLY | O_NONBLOCK);
    wait_for_all();
    fifo_writer = open(other, O_WRONLY);
    expect(fifo_reader >= 0 && fifo_writer >= 0, "a FIFO", 0);
    expect(fcntl(fifo_reader, F_SETFL, 0) == 0, "F_SETFL", 0);
    wait_for_all();
    if (program.rank == 0) /* the others keep their names */
        unlink(own);
}

/* A pipe and an eventfd of rank 0 that all have. */
static void make_channels(void)
{
    char path[64];
    int ends[2] = {-1, -1};
    long where[3];
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    if (program.rank == 0) {
        expect(pipe(ends) == 0, "pipe", 0);
        event = eventfd(0, 0);
    }
    where[0] = getpid();
    where[1] = ends[1];
    where[2] = event;
    MPI_Bcast(where, 3, MPI_LONG, 0, MPI_COMM_WORLD);
    snprintf(path, sizeof path, "/proc/%ld/fd/%ld", where[0], where[1]);
    pipe_reader = ends[0];
    if (program.rank > 0) {
        int process = (int)syscall(SYS_pidfd_open, where[0], 0);
        pipe_writer = open(path, O_WRONLY);
        event = (int)syscall(SYS_pidfd_getfd, process, where[2], 0);
        close(process);
        expect(pipe_writer >= 0 && event >= 0, "another's descriptor", 0);
    }
    wait_for_all();
    if (program.rank == 0)
        close(ends[1]);
}

/* ---- counting under locks ---- */

static void change_set(int number, int by, short flags)
{
    struct sembuf operation = {(unsigned short)number, (short)by, flags};
    while (semop(set, &operation, 1) < 0)
        expect(errno == EINTR, "semop", 0);
}

static void lock_counter(int which)
{
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 4000, .l_len = 8};
    int code = 0;
    switch (which) {
    case BY_MUTEX:
        code = pthread_mutex_lock(&shared->mutex);
        break;
    case BY_ROBUST:
        code = pthread_mutex_lock(&shared->robust);
        break;
    case BY_SPIN:
        while ((code = pthread_spin_trylock(&shared->spin)) == EBUSY)
            sched_yield();
        break;
    case BY_NAMED:
        code = sem_wait(named);
        break;
    case BY_UNNAMED:
        code = sem_wait(&shared->unnamed);
        break;
    case BY_SET:
        change_set(0, -1, SEM_UNDO);
        break;
    case BY_FLOCK:
        code = flock(locked_fd, LOCK_EX);
        break;
    case BY_RANGE:
        code = fcntl(range_fd, F_SETLKW, &range);
        break;
    }
    expect(code == 0, "a lock", which);
}

static void unlock_counter(int which)
{
    struct flock range = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = 4000, .l_len = 8};
    int code = 0;
    switch (which) {
    case BY_MUTEX:
        code = pthread_mutex_unlock(&shared->mutex);
        break;
    case BY_ROBUST:
        code = pthread_mutex_unlock(&shared->robust);
        break;
    case BY_SPIN:
        code = pthread_spin_unlock(&shared->spin);
        break;
    case BY_NAMED:
        code = sem_post(named);
        break;
    case BY_UNNAMED:
        code = sem_post(&shared->unnamed);
        break;
    case BY_SET:
        change_set(0, 1, SEM_UNDO);
        break;
    case BY_FLOCK:
        code = flock(locked_fd, LOCK_UN);
        break;
    case BY_RANGE:
        code = fcntl(range_fd, F_SETLK, &range);
        break;
    }
    expect(code == 0, "an unlock", which);
}

/* A child ends while it has the mutex: its next owner hears of it. */
static void lose_owner(long step)
{
    if (step % 10 == program.rank) {
        pid_t child = fork();
        if (child == 0) {
            pthread_mutex_lock(&shared->robust);
            if (step % 20 == program.rank)
                _exit(0);
            raise(SIGKILL);
        }
        waitpid(child, NULL, 0);
        expect(pthread_mutex_lock(&shared->robust) == EOWNERDEAD, "a mutex whose owner has died", step);
        pthread_mutex_consistent(&shared->robust);
        pthread_mutex_unlock(&shared->robust);
    }
    wait_for_all();
}

/* Without the lock the increment would be lost now and then: others run in between. */
static void count(long step)
{
    for (int which = 0; which < COUNTERS; which++) {
        for (int i = 0; i < ROUNDS; i++) {
            lock_counter(which);
            volatile long *counter = &shared->counters[which];
            long value = *counter;
            if (i % 4 == 0)
                sched_yield();
            *counter = value + 1;
            unlock_counter(which);
        }
    }
    wait_for_all();
    for (int which = 0; which < COUNTERS; which++)
        if (shared->counters[which] != step * ROUNDS * program.ranks)
            fail(&program, "counter %d is %ld, not %ld, in step %ld", which, shared->counters[which],
                 step * ROUNDS * program.ranks, step);
    wait_for_all();
}

/* ---- waiting for one another ---- */

static void take_turns(long step)
{
    long mine = (step - 1) * program.ranks + program.rank;
    pthread_mutex_lock(&shared->turn_lock);
    while (shared->turn != mine)
        pthread_cond_wait(&shared->turn_changed, &shared->turn_lock);
    shared->turn++;
    digest_add_number(&program.digest, (uint64_t)shared->turn);
    pthread_cond_broadcast(&shared->turn_changed);
    pthread_mutex_unlock(&shared->turn_lock);
    pthread_barrier_wait(&shared->barrier);
    /* A rank is late, so that the others wait in the kernel. */
    if (program.rank == step % program.ranks) {
        usleep(2000);
        __atomic_store_n(&shared->futex, (uint32_t)step, __ATOMIC_SEQ_CST);
        syscall(SYS_futex, &shared->futex, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
    while (__atomic_load_n(&shared->futex, __ATOMIC_SEQ_CST) != (uint32_t)step)
        syscall(SYS_futex, &shared->futex, FUTEX_WAIT, (uint32_t)step - 1, NULL, NULL, 0);
    wait_for_all();
}

/* It waits in the kernel all the time, across lines. */
static void *serve(void *unused)
{
    (void)unused;
    for (;;) {
        while (sem_wait(&shared->wanted) < 0)
            ;
        if (is_over)
            return NULL;
        __atomic_add_fetch(&shared->served, 1, __ATOMIC_SEQ_CST);
        sem_post(&shared->done);
    }
}

static void be_served(long step)
{
    sem_post(&shared->wanted);
    while (sem_wait(&shared->done) < 0)
        ;
    wait_for_all();
    expect(__atomic_load_n(&shared->served, __ATOMIC_SEQ_CST) == step * program.ranks, "the threads' count",
           step);
    wait_for_all();
}

/* ---- what waits in the kernel from step to step ---- */

/* To the next rank; the types of its messages are its own. */
static void pass_messages(long step)
{
    int next = (program.rank + 1) % program.ranks,
        before = (program.rank + program.ranks - 1) % program.ranks;
    struct message message = {.type = next + 1};
    char wanted[sizeof message.text];
    snprintf(message.text, sizeof message.text, "step %ld from %d", step, program.rank);
    expect(msgsnd(queue, &message, sizeof message.text, 0) == 0, "msgsnd", step);
    if (step <= LATE_STEPS)
        return;
    expect(msgrcv(queue, &message, sizeof message.text, program.rank + 1, 0) == sizeof message.text, "msgrcv",
           step);
    snprintf(wanted, sizeof wanted, "step %ld from %d", step - LATE_STEPS, before);
    expect(!strcmp(message.text, wanted), "a message", step);
    digest_add(&program.digest, message.text, strlen(message.text));
}

static void read_text(int fd, const char *format, long step, int rank)
{
    char text[48] = "", wanted[48];
    size_t got = 0;
    while (got < sizeof text) {
        ssize_t more = read(fd, text + got, sizeof text - got);
        expect(more > 0 || (more < 0 && errno == EINTR), "a read from a pipe", step);
        got += more > 0 ? (size_t)more : 0;
    }
    snprintf(wanted, sizeof wanted, format, step, rank);
    expect(!strcmp(text, wanted), "what comes from a pipe", step);
    digest_add(&program.digest, text, sizeof text);
}

static void write_text(int fd, const char *format, long step, int rank)
{
    char text[48] = "";
    snprintf(text, sizeof text, format, step, rank);
    expect(write(fd, text, sizeof text) == sizeof text, "a write to a pipe", step);
}

/* What is written waits for some steps, or for an even one. */
static void use_channels(long step)
{
    int before = (program.rank + program.ranks - 1) % program.ranks;
    uint64_t one = 1, count = 0;
    write_text(fifo_writer, "step %ld by %d", step, program.rank);
    if (step > LATE_STEPS)
        read_text(fifo_reader, "step %ld by %d", step - LATE_STEPS, before);
    for (int rank = 1; rank < program.ranks; rank++) {
        if (program.rank == rank)
            write_text(pipe_writer, "pipe %ld by %d", step, rank);
        wait_for_all();
    }
    for (int rank = 1; program.rank == 0 && step > LATE_STEPS && rank < program.ranks; rank++)
        read_text(pipe_reader, "pipe %ld by %d", step - LATE_STEPS, rank);
    expect(write(event, &one, sizeof one) == sizeof one, "a write to an eventfd", step);
    wait_for_all();
    if (step % 2 == 0 && program.rank == (int)(step / 2) % program.ranks) {
        expect(read(event, &count, sizeof count) == sizeof count, "a read from an eventfd", step);
        expect(count == 2 * (uint64_t)program.ranks, "the count of an eventfd", step);
    }
    wait_for_all();
}

/* A value that grows in one step and falls in another; one that is undone at a rank's end. */
static void change_values(long step)
{
    wait_for_all();
    change_set(1, program.rank + 1, 0);
    if (step % 2 == 0)
        change_set(1, -2 * (program.rank + 1), 0);
    change_set(2, 1, SEM_UNDO);
    if (program.rank == step % program.ranks)
        sem_post(counted);
    wait_for_all();
    int value;
    expect(sem_getvalue(counted, &value) == 0 && value == step, "the value of a semaphore with a name", step);
    int all = program.ranks * (program.ranks + 1) / 2;
    expect(semctl(set, 1, GETVAL) == (step % 2 ? all : 0), "a semaphore's value", step);
    expect(semctl(set, 2, GETVAL) == program.ranks * step, "a semaphore's value to undo", step);
    wait_for_all();
}

/* Held for some steps by one rank after the other, in ranges by all. */
static void hold_locks(long step)
{
    int holder = (int)(step / HOLD_STEPS) % program.ranks, next = (program.rank + 1) % program.ranks;
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10};
    char byte = (char)step;
    range.l_start = program.rank * RANGE;
    if (step == 1)
        expect(fcntl(range_fd, F_SETLK, &range) == 0, "a lock of a range", step);
    if (step == 1 || (step % HOLD_STEPS == 0 && program.rank == holder)) {
        struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        if (program.rank == holder)
            expect(fcntl(ofd, F_OFD_SETLK, &all) == 0, "a lock of an open file", step);
    }
    if (step == 1) {
        struct flock own = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 5, .l_len = 2};
        expect(fcntl(own_fd, F_SETLK, &own) == 0, "a lock of an own file", step);
    }
    /* Writing must not cost the locks. */
    expect(pwrite(range_fd, &byte, 1, program.rank * RANGE) == 1, "a write to a locked range", step);
    expect(pwrite(own_fd, &byte, 1, step % 90000) == 1, "a write to a locked file", step);
    wait_for_all();
    struct flock other = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = next * RANGE + 9, .l_len = 1};
    expect(fcntl(range_fd, F_GETLK, &other) == 0 && other.l_type == F_WRLCK &&
               other.l_start == next * RANGE && other.l_len == 10,
           "the lock of another rank's range", step);
    struct flock all = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    bool is_free = fcntl(ofd, F_OFD_GETLK, &all) == 0 && all.l_type == F_UNLCK;
    expect(is_free == (program.rank == holder), "the lock of an open file", step);
    wait_for_all();
    if (step % HOLD_STEPS == HOLD_STEPS - 1 && program.rank == holder) {
        struct flock none = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
        expect(fcntl(ofd, F_OFD_SETLK, &none) == 0, "an unlock of an open file", step);
    }
    wait_for_all();
}

/* Another rank looks at the lock of the file that is open for writing only. */
static void look_at_own(long step)
{
    char name[64];
    int next = (program.rank + 1) % program.ranks;
    snprintf(name, sizeof name, "shm-sync-own-%d", next);
    int fd = open(name, O_RDONLY);
    struct flock own = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 6, .l_len = 1};
    expect(fd >= 0 && fcntl(fd, F_GETLK, &own) == 0 && own.l_type == F_WRLCK && own.l_start == 5 &&
               own.l_len == 2,
           "the lock of a file for writing only", step);
    close(fd);
    wait_for_all();
}

static void end_objects(void)
{
    char name[32];
    name_fifo(program.rank, name);
    unlink(name);
    is_over = true;
    wait_for_all();
    sem_post(&shared->wanted);
    pthread_join(waiter, NULL);
    wait_for_all();
    if (program.rank > 0)
        return;
    semctl(set, 0, IPC_RMID);
    msgctl(queue, IPC_RMID, NULL);
}

/* ---- --mode across ---- */

static void wait_until(const long *word, long value)
{
    while (__atomic_load_n(word, __ATOMIC_SEQ_CST) < value)
        usleep(100);
}

/* Ranks 0 and 2 have one communicator, 1 and 3 the other. */
static void meet_across(MPI_Comm comm, long step)
{
    if (program.rank == 1) {
        wait_until(&shared->taken, step - 1);
        pthread_mutex_lock(&shared->mutex);
        __atomic_store_n(&shared->locked, step, __ATOMIC_SEQ_CST);
        usleep(10000);
        MPI_Barrier(comm);
        pthread_mutex_unlock(&shared->mutex);
    } else if (program.rank == 0) {
        wait_until(&shared->locked, step);
        pthread_mutex_lock(&shared->mutex);
        shared->counters[BY_MUTEX]++;
        pthread_mutex_unlock(&shared->mutex);
        __atomic_store_n(&shared->taken, step, __ATOMIC_SEQ_CST);
        MPI_Barrier(comm);
    } else {
        usleep(program.rank == 3 ? 15000 : 0);
        MPI_Barrier(comm);
    }
}

static void do_across(void)
{
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, program.rank % 2, program.rank, &comm);
    for (long step = 1; step <= program.steps; step++) {
        meet_across(comm, step);
        program_step(&program, step);
    }
    wait_for_all();
    digest_add_number(&program.digest, (uint64_t)shared->counters[BY_MUTEX]);
    MPI_Comm_free(&comm);
}

static void do_all(void)
{
    make_system_v();
    make_locked_files();
    make_fifos();
    make_channels();
    pthread_create(&waiter, NULL, serve, NULL);
    for (long step = 1; step <= program.steps; step++) {
        count(step);
        lose_owner(step);
        take_turns(step);
        be_served(step);
        pass_messages(step);
        use_channels(step);
        change_values(step);
        hold_locks(step);
        look_at_own(step);
        program_step(&program, step);
    }
    end_objects();
}

int main(int argc, char **argv)
{
    int provided;
    program = (struct program){.steps = 200};
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    program_begin(&program, "shm_sync", argc, argv);
    make_shared();
    if (!strcmp(program.mode, "across"))
        do_across();
    else
        do_all();
    if (program.rank == 0) {
        sem_unlink(named_name);
        sem_unlink(counted_name);
    }
    program_end(&program);
    MPI_Finalize();
    return 0;
}
