/* belay-relay - carries what belay run and the agents of other hosts say; started by belay run. */
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/log.h"
#include "relay/roles.h"

#define NODE_MAX 63ul

static bool read_number(const char *text, unsigned long most, unsigned long *number)
{
    char *end;
    *number = strtoul(text, &end, 10);
    return *text && !*end && *number <= most;
}

/* The program beside this one. */
static bool find_belayd(char path[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (length < 0)
        return false;
    path[length] = '\0';
    char *name = strrchr(path, '/');
    return name &&
           snprintf(name + 1, PATH_MAX - (size_t)(name + 1 - path), "belayd") < PATH_MAX - (name + 1 - path);
}

/* host NODE RUNDIR PORT ADDRESS... */
static int host(char **arguments, bool stays)
{
    char belayd[PATH_MAX];
    unsigned long node, port;
    if (!read_number(arguments[0], NODE_MAX, &node) || !read_number(arguments[2], UINT16_MAX, &port) ||
        !find_belayd(belayd))
        return EXIT_FAILURE;
    const struct role_host of = {.rundir = arguments[1],
                                 .belayd = belayd,
                                 .node = (uint32_t)node,
                                 .stays = stays,
                                 .port = (uint16_t)port,
                                 .addresses = arguments + 3};
    return role_host(&of);
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    if (argc >= 2 && !strcmp(argv[1], "where"))
        return role_where(argc == 3 && !strcmp(argv[2], "pmix"));
    if (argc == 3 && !strcmp(argv[1], "gather"))
        return role_gather(argv[2]);
    if (argc > 5 && (!strcmp(argv[1], "host") || !strcmp(argv[1], "stay")))
        return host(argv + 2, !strcmp(argv[1], "stay"));
    log_error("belay-relay is started by belay run, or by ranks");
    return EXIT_FAILURE;
}
