#include "slurm-plugin/bounded.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/clock.h"

/* Until the descriptor of the process can be read, or it is so late. */
static int wait_until(int fd, int64_t until_ms)
{
    struct pollfd end = {.fd = fd, .events = POLLIN};
    for (;;) {
        int64_t left_ms = until_ms - clock_now_ms();
        int ready = poll(&end, 1, left_ms > 0 ? (int)left_ms : 0);
        if (ready > 0)
            return 0;
        if (ready < 0 && errno != EINTR)
            return -1;
        if (ready == 0) {
            errno = ETIMEDOUT;
            return -1;
        }
    }
}

int bounded_wait(pid_t child, unsigned limit_ms, int *status)
{
    int fd = pidfd_open(child, 0);
    int rc = fd < 0 ? -1 : wait_until(fd, clock_now_ms() + limit_ms), code = errno;
    if (fd >= 0)
        close(fd);
    if (rc < 0) {
        kill(child, SIGKILL);
        waitpid(child, status, WNOHANG);
        errno = code;
        return -1;
    }
    while (waitpid(child, status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return 0;
}
