#include "tests/histories/process/child.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/histories/core/journal.h"
#include "tests/histories/core/world.h"
#include "tests/programs/incarnation.h"

#define TRIES 20

/* Everything, up to the end of the child and of whoever has its end of the pipe. */
static void read_text(int fd, struct child *child)
{
    size_t length = 0;
    ssize_t more;
    memset(child->text, 0, sizeof child->text);
    while ((more = read(fd, child->text + length, sizeof child->text - 1 - length)) > 0)
        length += (size_t)more;
}

/* False if it has been lost by a restart. */
static bool run_once(child_start_f *start, void *context, struct child *child)
{
    long before = incarnation();
    int pipe[2];
    if (pipe2(pipe, O_CLOEXEC)) {
        wrong("no pipe for a child");
        return true;
    }
    child->status = -1;
    pid_t pid = start(pipe[1], context);
    close(pipe[1]);
    read_text(pipe[0], child);
    pid_t ended = pid < 0 ? -1 : waitpid(pid, &child->status, 0);
    close(pipe[0]);
    if (pid < 0)
        wrong("no child: %s", error_name(errno));
    if (pid >= 0 && ended != pid && incarnation() == before)
        wrong("waiting for a child: %s", error_name(errno));
    return ended == pid || incarnation() == before;
}

void child_run(child_start_f *start, void *context, struct child *child)
{
    int tries = TRIES;
    while (!run_once(start, context, child) && --tries > 0)
        ;
    if (tries == 0)
        wrong("a child was lost %d times", TRIES);
}

static pid_t start_fork(int report, void *context)
{
    int (**work)(int report) = context;
    pid_t pid = fork();
    if (pid == 0) {
        world.is_child = true;
        journal_detach();
        _exit((*work)(report));
    }
    return pid;
}

void child_fork(int (*work)(int report), struct child *child)
{
    child_run(start_fork, &work, child);
}
