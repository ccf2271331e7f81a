#include "relay/key.h"

#include <errno.h>
#include <unistd.h>

_Static_assert(sizeof(struct session_key) == 48, "belay run writes so many bytes (cmd/hosts.c)");

int key_read(struct session_key *key, struct belay_error *err)
{
    char *to = (char *)key;
    for (size_t done = 0; done < sizeof *key;) {
        ssize_t got = read(STDIN_FILENO, to + done, sizeof *key - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return belay_error_set(err, EINVAL, "the job's key has not come on standard input");
        done += (size_t)got;
    }
    return 0;
}
