#include "node-agent/fabric/state.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

void fabric_wake(struct fabric *fabric)
{
    const uint64_t one = 1;
    int code = errno;
    ssize_t ignored = write(fabric->wake_fd, &one, sizeof one); /* full: it is awake */
    (void)ignored;
    errno = code;
}
