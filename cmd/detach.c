#include "cmd/detach.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/exit_codes.h"
#include "cmd/options.h"
#include "common/wire/job_name.h"

/* The one message through the pipe. */
struct word {
    int exit_code;
    char name[JOB_NAME_BYTES]; /* empty: failed */
};

static int hear_word(int fd, pid_t pid)
{
    struct word word;
    ssize_t got;
    do {
        got = read(fd, &word, sizeof word);
    } while (got < 0 && errno == EINTR);
    close(fd);
    if (got != sizeof word || word.name[0] == '\0') {
        waitpid(pid, NULL, 0); /* its messages are out before we end */
        return got == sizeof word ? word.exit_code : EXIT_INTERNAL;
    }
    puts(word.name);
    return fflush(stdout) ? EXIT_INTERNAL : EXIT_OK;
}

int detach_fork(struct detach *detach, int *exit_code, struct belay_error *err)
{
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC))
        return belay_error_errno(err, "cannot make a pipe");
    pid_t pid = fork();
    if (pid < 0) {
        belay_error_errno(err, "cannot start the background process");
        close(pipe_fds[0]);
        close(pipe_fds[1]);
        return -1;
    }
    close(pipe_fds[pid == 0 ? 0 : 1]);
    if (pid > 0) {
        *exit_code = hear_word(pipe_fds[0], pid);
        return 1;
    }
    setsid();
    detach->report_fd = pipe_fds[1];
    return 0;
}

/* Open the file NAME.suffix here. Returns a descriptor, or -1 with err. */
static int open_stream(const char *name, const char *suffix, struct belay_error *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s.%s", name, suffix);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    return fd < 0 ? belay_error_errno(err, "cannot write %s here", path) : fd;
}

int detach_open_streams(struct detach *detach, const char *name, struct belay_error *err)
{
    if (detach->report_fd < 0)
        return 0;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0)
        return belay_error_errno(err, "cannot open /dev/null");
    close(null);
    detach->out_fd = open_stream(name, "out", err);
    if (detach->out_fd < 0)
        return -1;
    detach->err_fd = open_stream(name, "err", err);
    return detach->err_fd < 0 ? -1 : 0;
}

/* Send the word and close. The first process may be gone, which is no reason to end the job. */
static void say(struct detach *detach, const struct word *word)
{
    ssize_t ignored = write(detach->report_fd, word, sizeof *word);
    (void)ignored;
    close(detach->report_fd);
    detach->report_fd = -1;
}

void detach_report_success(struct detach *detach, const char *name)
{
    struct word word = {.exit_code = EXIT_OK};
    if (detach->report_fd < 0)
        return;
    dup2(detach->out_fd, STDOUT_FILENO);
    dup2(detach->err_fd, STDERR_FILENO);
    snprintf(word.name, sizeof word.name, "%s", name);
    say(detach, &word);
}

void detach_report_failure(struct detach *detach, int exit_code)
{
    struct word word = {.exit_code = exit_code};
    if (detach->report_fd >= 0)
        say(detach, &word);
}
