#include "node-agent/fabric/state.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

uint64_t fabric_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void fabric_wake(struct fabric *fabric)
{
    const uint64_t one = 1;
    int code = errno;
    ssize_t ignored = write(fabric->wake_fd, &one, sizeof one); /* full: it is awake */
    (void)ignored;
    errno = code;
}
