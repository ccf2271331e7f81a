/*
 * endpoints.c - sockets that are no pairs: they listen, or receive datagrams, under a name of their own. What
 * is on its way to one when a line is taken is lost with a restart, so it is sent again then.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/core/world.h"
#include "tests/programs/incarnation.h"

#define ENDPOINTS 4
#define LOOK_MS 20
#define LOOKS 1500

static struct endpoint {
    bool is_open;
    int fd, family, type;
    socklen_t bytes;
    struct sockaddr_storage name;
} endpoints[ENDPOINTS];

static bool is_bound(struct endpoint *endpoint)
{
    const struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct sockaddr_un any = {.sun_family = AF_UNIX}; /* the kernel chooses a name */
    const void *name = endpoint->family == AF_INET ? (const void *)&here : &any;
    socklen_t bytes = endpoint->family == AF_INET ? sizeof here : sizeof any.sun_family;
    endpoint->bytes = sizeof endpoint->name;
    return bind(endpoint->fd, name, bytes) == 0 &&
           (endpoint->type != SOCK_STREAM || listen(endpoint->fd, 4) == 0) &&
           getsockname(endpoint->fd, (struct sockaddr *)&endpoint->name, &endpoint->bytes) == 0;
}

static void act_open(void)
{
    struct endpoint *endpoint = &endpoints[pick(ENDPOINTS)];
    int family = (int)PICK_ONE(AF_INET, AF_UNIX), type = (int)PICK_ONE(SOCK_STREAM, SOCK_DGRAM);
    if (endpoint->is_open) {
        answer(close(endpoint->fd));
        endpoint->is_open = false;
        return;
    }
    *endpoint =
        (struct endpoint){.fd = socket(family, type | SOCK_CLOEXEC, 0), .family = family, .type = type};
    endpoint->is_open = endpoint->fd >= 0 && is_bound(endpoint);
    answer(endpoint->is_open ? 0 : -1);
    if (!endpoint->is_open)
        close(endpoint->fd);
}

static bool is_readable(int fd, long process)
{
    struct pollfd comes = {.fd = fd, .events = POLLIN};
    for (int look = 0; look < LOOKS && incarnation() == process; look++)
        if (poll(&comes, 1, LOOK_MS) == 1)
            return true;
    return false;
}

static bool exchange(const struct endpoint *endpoint, const char *text, size_t bytes, char *got, long process)
{
    int to = socket(endpoint->family, endpoint->type | SOCK_CLOEXEC, 0), from = endpoint->fd;
    bool is_sent = connect(to, (const struct sockaddr *)&endpoint->name, endpoint->bytes) == 0 &&
                   send(to, text, bytes, MSG_NOSIGNAL) == (ssize_t)bytes &&
                   is_readable(endpoint->fd, process);
    if (is_sent && endpoint->type == SOCK_STREAM)
        from = accept(endpoint->fd, NULL, NULL);
    bool is_here =
        is_sent && from >= 0 && is_readable(from, process) && recv(from, got, bytes, 0) == (ssize_t)bytes;
    if (from >= 0 && from != endpoint->fd)
        close(from);
    close(to);
    return is_here;
}

static void act_send(void)
{
    const struct endpoint *endpoint = &endpoints[pick(ENDPOINTS)];
    size_t bytes = 1 + pick(200);
    char text[200], got[200] = "";
    long process;
    bool is_done;
    memcpy(text, some_bytes(bytes), bytes);
    if (!endpoint->is_open)
        return;
    do {
        process = incarnation();
        is_done = exchange(endpoint, text, bytes, got, process) && !memcmp(text, got, bytes);
    } while (!is_done && incarnation() != process);
    if (!is_done)
        wrong("a socket with a name: %s", error_name(errno));
    say_bytes(got, bytes);
}

static void act_option(void)
{
    const struct endpoint *endpoint = &endpoints[pick(ENDPOINTS)];
    int option = (int)PICK_ONE(SO_KEEPALIVE, SO_BROADCAST, SO_OOBINLINE), value = chance(50);
    say(" %d %d", option, value);
    if (endpoint->is_open)
        answer(setsockopt(endpoint->fd, SOL_SOCKET, option, &value, sizeof value));
}

static const struct operation operations[] = {
    {"open", 3, act_open}, {"send", 6, act_send}, {"option", 2, act_option}, {NULL, 0, NULL}};

static int option_of(int fd, int option)
{
    int value = -1;
    socklen_t bytes = sizeof value;
    return getsockopt(fd, SOL_SOCKET, option, &value, &bytes) ? -errno : value;
}

static void observe(void)
{
    for (size_t i = 0; i < ENDPOINTS; i++) {
        const struct endpoint *endpoint = &endpoints[i];
        struct sockaddr_storage name;
        socklen_t bytes = sizeof name;
        if (!endpoint->is_open)
            continue;
        bool is_same = getsockname(endpoint->fd, (struct sockaddr *)&name, &bytes) == 0 &&
                       bytes == endpoint->bytes && !memcmp(&name, &endpoint->name, bytes);
        note("endpoint %zu: %s, type %d, listens %d, options %d %d %d", i,
             is_same ? "same name" : "another name", option_of(endpoint->fd, SO_TYPE),
             option_of(endpoint->fd, SO_ACCEPTCONN), option_of(endpoint->fd, SO_KEEPALIVE),
             option_of(endpoint->fd, SO_BROADCAST), option_of(endpoint->fd, SO_OOBINLINE));
    }
}

const struct kind kind_endpoints = {"endpoints", operations, .observe = observe};
