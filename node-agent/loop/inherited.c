#include "node-agent/loop/inherited.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/image/image.h"
#include "common/image/layout.h"
#include "common/wire/streams.h"
#include "node-agent/loop/processor.h"

#define STACK_BYTES (8ul << 20)
#define OOM_FILE "/proc/self/oom_score_adj"

/* Meant for one job: we take what we may have. That of the stack is also the size of each thread's. */
static const int raised[] = {RLIMIT_AS, RLIMIT_CPU, RLIMIT_DATA, RLIMIT_FSIZE, RLIMIT_NOFILE, RLIMIT_NPROC};

static void shed_descriptors(void);
static void shed_signals(void);
static void shed_limits(void);
static void shed_priorities(void);
static int check_file_size(struct belay_error *err);

int inherited_shed(struct belay_error *err)
{
    shed_descriptors();
    shed_signals();
    shed_limits();
    shed_priorities();
    umask(S_IRWXG | S_IRWXO);
    if (chdir("/") < 0)
        return belay_error_errno(err, "cannot leave the working directory");
    return check_file_size(err);
}

/* A pipe of a launcher's among them would let it wait for us. One that is closed would be the next thing
 * opened. */
static void shed_descriptors(void)
{
    int fd;
    close_range(STDERR_FILENO + 1, ~0u, 0);
    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/* Those that a limit, a closed pipe or a child sends are errors, or nothing, where they matter. */
static void shed_signals(void)
{
    static const int ignored[] = {SIGCHLD, SIGPIPE, SIGXCPU, SIGXFSZ};
    sigset_t none;
    for (int number = 1; number <= SIGRTMAX; number++)
        signal(number, SIG_DFL); /* fails for some, as it should */
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void raise_limit(int which, rlim_t enough)
{
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)which, &limit) < 0 || limit.rlim_cur >= enough)
        return;
    limit.rlim_cur = limit.rlim_max < enough ? limit.rlim_max : enough;
    setrlimit((__rlimit_resource_t)which, &limit);
}

/* A core file would hold what is in images. */
static void shed_limits(void)
{
    static const struct rlimit no_core = {0, 0};
    for (size_t i = 0; i < sizeof raised / sizeof *raised; i++)
        raise_limit(raised[i], RLIM_INFINITY);
    raise_limit(RLIMIT_STACK, STACK_BYTES);
    setrlimit(RLIMIT_CORE, &no_core);
}

/* What was held against a job, or bound it to a part of the machine. Nothing is lost where it is not allowed.
 */
static void shed_priorities(void)
{
    int fd = open(OOM_FILE, O_RDWR | O_CLOEXEC);
    char text[16] = "";
    if (fd >= 0 && pread(fd, text, sizeof text - 1, 0) > 0 && atoi(text) > 0 && pwrite(fd, "0", 1, 0) != 1)
        text[0] = '\0';
    if (fd >= 0)
        close(fd);
    if (getpriority(PRIO_PROCESS, 0) > 0)
        setpriority(PRIO_PROCESS, 0, 0);
    syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0);
    prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
    processor_take_all();
}

/* Files in memory obey the limit of files. Those of images are large, though hardly any of them is there. */
static int check_file_size(struct belay_error *err)
{
    struct rlimit limit;
    uint64_t need = image_end() > STREAMS_BYTES ? image_end() : STREAMS_BYTES;
    if (getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= need)
        return 0;
    return belay_error_set(
        err, EFBIG,
        "files may have %ju KiB here (ulimit -f), and images are files in memory: use 'ulimit -f "
        "unlimited', or start the job from a shell without this hard limit",
        (uintmax_t)limit.rlim_cur >> 10);
}

void inherited_warning(char *text, size_t room)
{
    struct rlimit limit;
    text[0] = '\0';
    if (getrlimit(RLIMIT_CPU, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        snprintf(text, room,
                 "the agent is killed when it has used %ju s of processor time (ulimit -t of the shell that "
                 "started it)",
                 (uintmax_t)limit.rlim_cur);
    else if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        snprintf(
            text, room,
            "the agent may map %ju MiB (ulimit -v of the shell that started it), and lines that need more "
            "will "
            "be aborted; set the limit in the launch line: mpirun ... sh -c 'ulimit -v KIB; exec PROGRAM'",
            (uintmax_t)limit.rlim_cur >> 20);
}

struct attempt {
    pthread_mutex_t held; /* until all have been started */
};

static void *wait_for_all(void *context)
{
    struct attempt *attempt = context;
    pthread_mutex_lock(&attempt->held);
    pthread_mutex_unlock(&attempt->held);
    return NULL;
}

int inherited_try_threads(unsigned count, struct belay_error *err)
{
    struct attempt attempt = {PTHREAD_MUTEX_INITIALIZER};
    pthread_t *threads = calloc(count, sizeof *threads);
    unsigned started = 0;
    int code = threads ? 0 : ENOMEM;
    pthread_mutex_lock(&attempt.held);
    while (code == 0 && started < count) {
        code = pthread_create(&threads[started], NULL, wait_for_all, &attempt);
        started += code == 0;
    }
    pthread_mutex_unlock(&attempt.held);
    for (unsigned i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    if (code == 0)
        return 0;
    return belay_error_set(
        err, code, "the agent needs %u threads and cannot start %u: %s (ulimit -u, TasksMax of the cgroup)",
        count, started + 1, strerror(code));
}
