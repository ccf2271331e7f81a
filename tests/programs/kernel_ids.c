/*
 * kernel_ids - every place where the kernel tells or takes the id of a process or a thread, as a table. Each
 * row asks one of them, and answers by whose id it is: the same before a line, after a restart and after a
 * second one. What differs from the first step is named, all of it, before the program gives up.
 *
 * --value 1: a table of each rank's answers is printed, to compare with a native run.
 */
#include <asm/ioctls.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <linux/sockios.h>
#include <mpi.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "tests/programs/incarnation.h"
#include "tests/programs/kernel_ids.h"
#include "tests/programs/program.h"

#define QUEUED (SIGRTMIN + 3)
#define TIMED (SIGRTMIN + 4)

static struct program program = {.steps = 100};
struct kernel_ids ids = {.address.sun_family = AF_UNIX};
static int signals, terminal[2], segment, semaphore, queue, file;
static pthread_barrier_t turn;
static timer_t timer;
static volatile long helpers_answer;
static long (*volatile helpers_task)(void);

long whose(pid_t id)
{
    const pid_t all[] = {0, ids.self, ids.helper, ids.parent, ids.group, ids.session, ids.peer};
    for (long i = 0; i < (long)(sizeof all / sizeof *all); i++)
        if (id == all[i])
            return i;
    return A_STRANGER;
}

static long whose_or_child(pid_t id, pid_t child)
{
    return id == child ? CHILD : whose(id);
}

long failed(void)
{
    return FAILED + errno;
}

/* ---- signals ---- */

/* Whose it is if the next signal comes by this descriptor. */
static long sent_by(int number, int sent)
{
    struct signalfd_siginfo info;
    if (sent || read(signals, &info, sizeof info) != sizeof info || (int)info.ssi_signo != number)
        return failed();
    return whose((pid_t)info.ssi_pid);
}

static long signalfd_kill(void)
{
    return sent_by(SIGUSR1, kill(ids.self, SIGUSR1));
}

static long signalfd_queue(void)
{
    return sent_by(QUEUED, sigqueue(ids.self, QUEUED, (union sigval){.sival_int = 1}));
}

static long signalfd_thread(void)
{
    return sent_by(SIGUSR1, (int)syscall(SYS_tgkill, ids.self, ids.self, SIGUSR1));
}

/* Several at once, in two parts: what a program of events does. */
static long signalfd_many(void)
{
    struct signalfd_siginfo info[4];
    struct iovec parts[2] = {{info, 2 * sizeof *info}, {info + 2, 2 * sizeof *info}};
    if (kill(ids.self, SIGUSR1) || kill(ids.self, QUEUED) || kill(ids.self, QUEUED))
        return failed();
    if (readv(signals, parts, 2) != 3 * sizeof *info)
        return failed();
    return whose((pid_t)info[0].ssi_pid) + 10 * whose((pid_t)info[1].ssi_pid) +
           100 * whose((pid_t)info[2].ssi_pid);
}

static long wait_info(void)
{
    siginfo_t info;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, QUEUED);
    if (kill(ids.self, QUEUED) || sigwaitinfo(&set, &info) != QUEUED)
        return failed();
    return whose(info.si_pid);
}

static long thread_queue(void)
{
    siginfo_t info;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, QUEUED);
    if (pthread_sigqueue(pthread_self(), QUEUED, (union sigval){.sival_int = 2}) ||
        sigwaitinfo(&set, &info) != QUEUED)
        return failed();
    return whose(info.si_pid) + 10 * info.si_value.sival_int;
}

/* A timer whose signal is for the other thread. */
static long await_timer(void)
{
    siginfo_t info;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, TIMED);
    if (sigwaitinfo(&set, &info) != TIMED)
        return failed();
    return whose(gettid()) + 10 * (info.si_code == SI_TIMER);
}

void helper_start(long (*task)(void))
{
    helpers_task = task;
    pthread_barrier_wait(&turn);
}

long helper_end(void)
{
    pthread_barrier_wait(&turn);
    return helpers_answer;
}

long on_helper(long (*task)(void))
{
    helper_start(task);
    return helper_end();
}

static long thread_timer(void)
{
    struct itimerspec soon = {.it_value.tv_nsec = 1000000};
    if (timer_settime(timer, 0, &soon, NULL))
        return failed();
    return on_helper(await_timer);
}

/* A new timer is given the id of the thread that it has known all the time. */
static long new_thread_timer(void)
{
    struct itimerspec soon = {.it_value.tv_nsec = 1000000};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = TIMED};
    timer_t fresh;
    event._sigev_un._tid = ids.helper;
    if (timer_create(CLOCK_MONOTONIC, &event, &fresh) || timer_settime(fresh, 0, &soon, NULL))
        return failed();
    long answer = on_helper(await_timer);
    timer_delete(fresh);
    return answer;
}

/* ---- children ---- */

static long ask_child(void (*task)(void))
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        task();
        _exit(99);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -status;
}

static void look_at_lock(void)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    if (fcntl(file, F_GETLK, &lock) || lock.l_type == F_UNLCK)
        _exit(90);
    _exit((int)whose_or_child(lock.l_pid, getpid()));
}

static long lock_of_parent(void)
{
    return ask_child(look_at_lock);
}

static void look_at_credentials(void)
{
    _exit((int)(peer_of(ids.pair[0]) + 10 * whose(getppid())));
}

static long pair_in_child(void)
{
    return ask_child(look_at_credentials);
}

static void look_at_groups(void)
{
    _exit((int)(whose(getpgrp()) + 10 * whose(getsid(getppid()))));
}

static long groups_in_child(void)
{
    return ask_child(look_at_groups);
}

static void send_to_parent(void)
{
    _exit(kill(getppid(), SIGUSR1) || sigqueue(getppid(), QUEUED, (union sigval){.sival_int = 1}));
}

static long child_signals(void)
{
    struct signalfd_siginfo info[2];
    pid_t child = fork();
    int status;
    if (child == 0)
        send_to_parent();
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (status || read(signals, info, sizeof info) != sizeof info)
        return failed();
    return whose_or_child((pid_t)info[0].ssi_pid, child) + 10 * whose_or_child((pid_t)info[1].ssi_pid, child);
}

static long wait_for_group(void)
{
    siginfo_t info;
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(3);
    if (waitid(P_PGID, (id_t)ids.group, &info, WEXITED | WNOWAIT))
        return failed();
    long answer = whose_or_child(info.si_pid, child);
    pid_t found = waitpid(-ids.group, &status, 0);
    return found < 0 ? failed() : 10 * answer + whose_or_child(found, child);
}

static long group_of_child(void)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    long answer = whose(getpgid(child)) + 10 * whose(getsid(child));
    if (setpgid(child, child) || getpgid(child) != child || setpgid(child, ids.group))
        answer = failed();
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return answer;
}

/* ---- objects of System V ---- */

static long semaphore_pid(void)
{
    struct sembuf up = {0, 1, 0}, down = {0, -1, 0};
    if (semop(semaphore, &up, 1) || semop(semaphore, &down, 1))
        return failed();
    return whose(semctl(semaphore, 0, GETPID));
}

static long segment_pids(void)
{
    struct shmid_ds about;
    void *at = shmat(segment, NULL, 0);
    if (at == (void *)-1 || shmdt(at) || shmctl(segment, IPC_STAT, &about))
        return failed();
    return whose(about.shm_lpid);
}

static long queue_pids(void)
{
    struct {
        long type;
        char text[1];
    } message = {1, "q"};
    struct msqid_ds about;
    if (msgsnd(queue, &message, 1, 0) || msgrcv(queue, &message, 1, 1, 0) != 1 ||
        msgctl(queue, IPC_STAT, &about))
        return failed();
    return whose(about.msg_lspid) + 10 * whose(about.msg_lrpid);
}

/* ---- terminals ---- */

static long terminal_session(void)
{
    pid_t id = tcgetsid(terminal[0]);
    return id < 0 ? failed() : whose(id);
}

static void have_terminal(void)
{
    pid_t own = getpid();
    if (setsid() != own || ioctl(terminal[1], TIOCSCTTY, 0))
        _exit(90);
    if (tcgetsid(terminal[1]) != own || tcgetpgrp(terminal[1]) != own)
        _exit(91);
    signal(SIGTTOU, SIG_IGN);
    if (tcsetpgrp(terminal[1], own))
        _exit(92);
    _exit(0);
}

static long terminal_of_child(void)
{
    return ask_child(have_terminal);
}

/* ---- others ---- */

static long link_to(const char *path, const char *format, long one, long other)
{
    char text[64] = "", expected[64];
    snprintf(expected, sizeof expected, format, one, other);
    return readlink(path, text, sizeof text - 1) < 0 ? failed() : strcmp(text, expected) != 0;
}

static long proc_self(void)
{
    return link_to("/proc/self", "%ld", ids.self, 0);
}

static long proc_thread_self(void)
{
    return link_to("/proc/thread-self", "%ld/task/%ld", ids.self, ids.self);
}

static long helpers_link(void)
{
    return link_to("/proc/thread-self", "%ld/task/%ld", ids.self, ids.helper);
}

static long proc_thread_self_of_helper(void)
{
    return on_helper(helpers_link);
}

static long helpers_id(void)
{
    return whose(gettid());
}

static long thread_id(void)
{
    return on_helper(helpers_id);
}

/* The kernel clears this word when the thread ends. */
static long counter_of_self(void)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE, .size = sizeof attr};
    attr.config = PERF_COUNT_SW_TASK_CLOCK;
    attr.exclude_kernel = 1;
    int fd = (int)syscall(SYS_perf_event_open, &attr, ids.self, -1, -1, 0);
    if (fd < 0)
        return errno == EACCES || errno == EPERM ? 0 : failed(); /* as the machine allows it */
    close(fd);
    fd = (int)syscall(SYS_perf_event_open, &attr, ids.helper, -1, -1, 0);
    long answer = fd < 0 ? failed() : 0;
    close(fd);
    return answer;
}

static long descriptor_of_process(void)
{
    int fd = (int)syscall(SYS_pidfd_open, ids.self, 0);
    if (fd < 0)
        return failed();
    int copy = (int)syscall(SYS_pidfd_getfd, fd, ids.pair[0], 0);
    long answer = copy < 0 ? failed() : peer_of(copy);
    close(copy);
    if (syscall(SYS_pidfd_send_signal, fd, SIGUSR1, NULL, 0))
        answer = failed();
    close(fd);
    return answer + 10 * sent_by(SIGUSR1, 0);
}

static long group_signals(void)
{
    return (kill(0, 0) != 0) + 10 * (kill(-ids.group, 0) != 0) + 100 * (killpg(ids.group, 0) != 0) +
           1000 * (kill(-ids.self, 0) != 0 && errno != ESRCH);
}

static long priority_of_thread(void)
{
    errno = 0;
    long answer = getpriority(PRIO_PROCESS, (id_t)ids.helper);
    answer = errno ? failed() : answer;
    if (setpriority(PRIO_PROCESS, (id_t)ids.helper, (int)answer))
        return failed();
    errno = 0;
    return getpriority(PRIO_PGRP, (id_t)ids.group) == -1 && errno ? failed() : answer;
}

static long clock_of_thread(void)
{
    struct timespec spent;
    const clockid_t clock = ~(clockid_t)ids.helper << 3 | 6; /* CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED */
    return clock_gettime(clock, &spent) ? failed() : 0;
}

static long queue_notified(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    char name[32];
    struct mq_attr size = {.mq_maxmsg = 2, .mq_msgsize = 8};
    snprintf(name, sizeof name, "/kernel-ids-%d", ids.self);
    mqd_t fd = mq_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600, &size);
    if (fd == (mqd_t)-1)
        return failed();
    mq_unlink(name);
    long answer = mq_notify(fd, &event) || mq_send(fd, "n", 1, 0) ? failed() : sent_by(SIGUSR1, 0);
    mq_close(fd);
    return answer;
}

static const struct row {
    const char *name;
    long (*ask)(void);
} rows[] = {
    {"ssi_pid after kill", signalfd_kill},
    {"ssi_pid after sigqueue", signalfd_queue},
    {"ssi_pid after tgkill", signalfd_thread},
    {"ssi_pid of several at once", signalfd_many},
    {"ssi_pid after a child's signals", child_signals},
    {"si_pid from sigwaitinfo", wait_info},
    {"si_pid after pthread_sigqueue", thread_queue},
    {"si_pid after mq_notify", queue_notified},
    {"SIGEV_THREAD_ID", thread_timer},
    {"SIGEV_THREAD_ID of a new timer", new_thread_timer},
    {"SCM_CREDENTIALS of the kernel", credentials},
    {"SCM_CREDENTIALS of its own", own_credentials},
    {"SCM_CREDENTIALS of several", many_credentials},
    {"SO_PEERCRED of a pair", pair_peer},
    {"SO_PEERCRED of a connection", connection_peer},
    {"SO_PEERCRED in a child", pair_in_child},
    {"FIOSETOWN, SIOCGPGRP", socket_group},
    {"F_SETOWN_EX of a group", group_owner},
    {"l_pid in a child", lock_of_parent},
    {"group and session in a child", groups_in_child},
    {"waiting for the group", wait_for_group},
    {"group and session of a child", group_of_child},
    {"GETPID of a semaphore", semaphore_pid},
    {"lpid of a segment", segment_pids},
    {"lspid and lrpid of a queue", queue_pids},
    {"tcgetsid", terminal_session},
    {"the terminal of a child", terminal_of_child},
    {"mutexes that are held", held_mutexes},
    {"a mutex that is waited for", contended_mutex},
    {"mutexes whose owner has ended", abandoned_mutex},
    {"/proc/self", proc_self},
    {"/proc/thread-self", proc_thread_self},
    {"/proc/thread-self of a thread", proc_thread_self_of_helper},
    {"gettid of a thread", thread_id},
    {"perf_event_open", counter_of_self},
    {"a pidfd of itself", descriptor_of_process},
    {"kill of the group", group_signals},
    {"getpriority of a thread", priority_of_thread},
    {"the clock of a thread", clock_of_thread},
};
#define ROWS (sizeof rows / sizeof *rows)

static void *help(void *unused)
{
    (void)unused;
    ids.helper = gettid();
    for (;;) {
        pthread_barrier_wait(&turn);
        if (helpers_task)
            helpers_answer = helpers_task();
        pthread_barrier_wait(&turn);
    }
    return NULL;
}

static void must(bool is_fine, const char *what)
{
    if (!is_fine)
        fail(&program, "%s: %s", what, strerror(errno));
}

static void make_descriptors(void)
{
    int on = 1;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, QUEUED);
    signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    must(signals >= 0 && socketpair(AF_UNIX, SOCK_DGRAM, 0, ids.pair) == 0 && pipe(ids.asynchronous) == 0,
         "descriptors");
    must(setsockopt(ids.pair[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0, "SO_PASSCRED");
    snprintf(ids.address.sun_path, sizeof ids.address.sun_path, "kernel-ids-%d", program.rank);
    unlink(ids.address.sun_path);
    ids.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(bind(ids.listener, (struct sockaddr *)&ids.address, sizeof ids.address) == 0 &&
             listen(ids.listener, 4) == 0,
         "a listener");
    terminal[0] = posix_openpt(O_RDWR | O_NOCTTY);
    must(terminal[0] >= 0 && grantpt(terminal[0]) == 0 && unlockpt(terminal[0]) == 0, "a terminal");
    terminal[1] = open(ptsname(terminal[0]), O_RDWR | O_NOCTTY);
    must(terminal[1] >= 0, "a terminal");
    snprintf(ids.address.sun_path, sizeof ids.address.sun_path, "kernel-ids-lock-%d", program.rank);
    file = open(ids.address.sun_path, O_RDWR | O_CREAT, 0600);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    must(fcntl(file, F_SETLK, &lock) == 0, "a lock");
    int folder = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(fcntl(folder, F_NOTIFY, DN_RENAME) == 0, "F_NOTIFY");
    close(folder);
    snprintf(ids.address.sun_path, sizeof ids.address.sun_path, "kernel-ids-%d", program.rank);
}

static void begin(void)
{
    pthread_t thread;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = TIMED};
    int left = (program.rank + program.ranks - 1) % program.ranks;
    int right = (program.rank + 1) % program.ranks;
    ids.self = getpid(), ids.parent = getppid(), ids.group = getpgrp(), ids.session = getsid(0);
    MPI_Sendrecv(&ids.self, 1, MPI_INT, left, 0, &ids.peer, 1, MPI_INT, right, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    pthread_barrier_init(&turn, NULL, 2);
    must(pthread_create(&thread, NULL, help, NULL) == 0, "a thread");
    on_helper(NULL);
    event._sigev_un._tid = ids.helper;
    must(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "a timer");
    make_descriptors();
    mutexes_make();
    segment = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
    semaphore = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
    queue = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
    must(segment >= 0 && semaphore >= 0 && queue >= 0, "objects of System V");
}

static void end(void)
{
    shmctl(segment, IPC_RMID, NULL);
    semctl(semaphore, 0, IPC_RMID);
    msgctl(queue, IPC_RMID, NULL);
    unlink(ids.address.sun_path);
}

/* A restart may take a child while it is asked: the row is asked again, without what it has left. */
static long answer_of(const struct row *row)
{
    struct signalfd_siginfo info;
    long before, answer;
    do {
        before = incarnation();
        answer = row->ask();
        while (read(signals, &info, sizeof info) > 0)
            ;
    } while (incarnation() != before);
    return answer;
}

static int ask_all(long step)
{
    static long first[ROWS];
    int different = 0;
    for (size_t i = 0; i < ROWS; i++) {
        long answer = answer_of(&rows[i]);
        if (step == 1 && program.value && program.rank == 0)
            printf("%-40s %ld\n", rows[i].name, answer);
        if (step == 1)
            first[i] = answer;
        else if (answer != first[i])
            different += fprintf(stderr, "rank %d, step %ld: %s: %ld, at first %ld\n", program.rank, step,
                                 rows[i].name, answer, first[i]) > 0;
        digest_add_number(&program.digest, (uint64_t)answer);
    }
    return different;
}

int main(int argc, char **argv)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, QUEUED);
    sigaddset(&set, TIMED);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    MPI_Init(&argc, &argv);
    program_begin(&program, "kernel_ids", argc, argv);
    begin();
    for (long step = 1; step <= program.steps; step++) {
        int different = ask_all(step);
        if (different)
            fail(&program, "%d answers are others than at first", different);
        program_step(&program, step);
    }
    end();
    program_end(&program);
    MPI_Finalize();
    return 0;
}
