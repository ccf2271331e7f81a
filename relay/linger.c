#include "relay/linger.h"

#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_MS 500
#define KEEPER_SOCKET "/keeper.sock"

/* Does the line of /proc/net/unix end with the path of the keeper's socket? */
static bool is_keeper(const char *line, size_t length, const char *rundir)
{
    size_t folder = strlen(rundir), whole = folder + sizeof KEEPER_SOCKET - 1;
    if (length <= whole || line[length - whole - 1] != ' ')
        return false;
    const char *path = line + length - whole;
    return !strncmp(path, rundir, folder) && !strcmp(path + folder, KEEPER_SOCKET);
}

/* Nothing is said to the keeper: with each client that leaves, it begins anew to count how long it keeps. */
static bool has_keeper(const char *rundir)
{
    FILE *sockets = fopen("/proc/net/unix", "re");
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    bool is_there = false;
    while (sockets && !is_there && (length = getline(&line, &room, sockets)) > 0) {
        line[strcspn(line, "\n")] = '\0';
        is_there = is_keeper(line, strlen(line), rundir);
    }
    free(line);
    if (sockets)
        fclose(sockets);
    return is_there;
}

void linger(const char *rundir)
{
    while (has_keeper(rundir))
        poll(NULL, 0, LOOK_MS);
}
