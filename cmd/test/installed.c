#include "cmd/test/installed.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <link.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char prefix[] = "/tmp/belay-supervise-XXXXXX";
char said[TEXT_BYTES];
char printed[TEXT_BYTES];
char journal[TEXT_BYTES];

char *path_of(const char *name)
{
    static char paths[2][PATH_MAX];
    static int next;
    char *path = paths[next++ % 2];
    snprintf(path, PATH_MAX, "%s/%s", prefix, name);
    return path;
}

void read_text(int fd, char *text)
{
    ssize_t got = pread(fd, text, TEXT_BYTES - 1, 0);
    text[got > 0 ? got : 0] = '\0';
}

void write_text(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name), "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int open_empty(const char *name)
{
    return open(path_of(name), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

/* ---- running belay ---- */

static pid_t start(char *const argv[], int out, int err)
{
    pid_t parent = getpid(), pid = fork();
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || chdir(prefix))
        _exit(1);
    alarm(DEADLINE_S); /* survives exec: a run that hangs fails */
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    execv(path_of("bin/belay"), argv);
    _exit(1);
}

pid_t start_run(const char *script, char *const argv[], int *out, int *err)
{
    unlink(path_of("run/journal"));
    unlink(path_of("ready"));
    write_text("run/script", script);
    *out = open_empty("stdout");
    *err = open_empty("stderr");
    assert_true(*out >= 0 && *err >= 0);
    return start(argv, *out, *err);
}

int finish_run(pid_t pid, int out, int err)
{
    int status, fd;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    read_text(out, printed);
    read_text(err, said);
    fd = open(path_of("run/journal"), O_RDONLY);
    read_text(fd, journal);
    close(fd);
    close(out);
    close(err);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int run(const char *script, char *const argv[])
{
    int out, err;
    pid_t pid = start_run(script, argv, &out, &err);
    return finish_run(pid, out, err);
}

void expect_said(const char *part)
{
    if (!strstr(said, part))
        fail_msg("'%s' was not said: %s", part, said);
}

void expect_silence(void)
{
    assert_string_equal(said, "");
}

void wait_ready(void)
{
    for (int i = 0; access(path_of("ready"), F_OK); i++) {
        assert_true(i < DEADLINE_S * 100);
        poll(NULL, 0, 10);
    }
}

/* ---- the installed layout ---- */

static int shell(const char *format, ...)
{
    char command[3 * PATH_MAX];
    va_list ap;
    va_start(ap, format);
    vsnprintf(command, sizeof command, format, ap);
    va_end(ap);
    return system(command);
}

/* Some shared object that does no harm when it is preloaded. */
static const char *harmless_library(void)
{
    struct link_map *map = NULL;
    void *library = dlopen("libm.so.6", RTLD_LAZY);
    return library && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : NULL;
}

int set_up(void **state)
{
    char self[PATH_MAX] = "", folder[PATH_MAX];
    (void)state;
    if (!mkdtemp(prefix) || readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return -1;
    setenv("BELAY_RUNDIR", path_of("run"), 1);
    unsetenv("BELAY_LOG");
    return shell("cd %s && mkdir -p -m 700 bin lib/belay run && cp %s lib/belay/belayd && "
                 "cp -L %s lib/belay/libbelay.so && cp %s/../belay bin/belay && cd lib/belay && "
                 "touch belay-arbiter belay-keeper belay-launch belay-relay belay-vdso.so libmpi.so.40 "
                 "libmpi_cxx.so.40 "
                 "libmpi_mpifh.so.40",
                 prefix, self, harmless_library(), dirname(strcpy(folder, self)));
}

int tear_down(void **state)
{
    (void)state;
    return shell("rm -rf %s", prefix);
}
