/* gather.c - the relay beside belay run: see roles.h. */
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/wire/placement.h"
#include "relay/guests.h"
#include "relay/key.h"
#include "relay/roles.h"

#define STRANGERS_MAX 64u
#define STRANGER_MS 10000 /* how long one may take to show that it has the key */
#define REFUSED_TOLD 8u   /* strangers of which the user hears */
#define TAKEN_MS 2        /* between two looks at output that waits to be taken */

struct stranger {
    struct session *session; /* NULL: free */
    int64_t since_ms;
};

struct gatherer {
    const char *folder; /* where each host gets a socket */
    struct session_key key;
    int listener;
    struct stranger strangers[STRANGERS_MAX];
    struct guest *guests[PLACEMENT_NODES_MAX]; /* by node; NULL: none */
    uint32_t refused;                          /* strangers so far */
    bool is_waiting;                           /* output waits to be taken */
};

/* ---- listening ---- */

static int listen_at(int family, struct belay_error *err)
{
    int off = 0;
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    bool is_six = family == AF_INET6;
    int sock = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (sock < 0)
        return belay_error_errno(err, "cannot make a socket");
    if (is_six)
        setsockopt(sock, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(sock, is_six ? (void *)&six : (void *)&four, is_six ? sizeof six : sizeof four) == 0 &&
        listen(sock, STRANGERS_MAX) == 0)
        return sock;
    belay_error_errno(err, "cannot listen for other hosts");
    close(sock);
    return -1;
}

static int numeric_name(const struct sockaddr *address, socklen_t bytes, char name[NI_MAXHOST])
{
    static const char mapped[] = "::ffff:";
    if (getnameinfo(address, bytes, name, NI_MAXHOST, NULL, 0, NI_NUMERICHOST) != 0)
        return -1;
    if (!strncmp(name, mapped, sizeof mapped - 1))
        memmove(name, name + sizeof mapped - 1, strlen(name) - sizeof mapped + 2);
    return 0;
}

/* Those of the interfaces that are up, but the loopback one and addresses that hold on one link only. */
static int tell_addresses(uint16_t port, struct belay_error *err)
{
    struct ifaddrs *all;
    char name[NI_MAXHOST];
    if (getifaddrs(&all) < 0)
        return belay_error_errno(err, "the addresses of this host cannot be found");
    printf("listen %u", port);
    for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
        int family = one->ifa_addr ? one->ifa_addr->sa_family : AF_UNSPEC;
        const struct sockaddr_in6 *six = (void *)one->ifa_addr;
        bool is_six = family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr);
        if ((family != AF_INET && !is_six) || !(one->ifa_flags & IFF_UP) || (one->ifa_flags & IFF_LOOPBACK))
            continue;
        if (numeric_name(one->ifa_addr, is_six ? sizeof *six : sizeof(struct sockaddr_in), name) == 0)
            printf(" %s", name);
    }
    printf("\n");
    freeifaddrs(all);
    return fflush(stdout) == 0 ? 0 : belay_error_errno(err, "belay run does not listen");
}

static int begin(struct gatherer *gatherer, struct belay_error *err)
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    if (key_read(&gatherer->key, err) < 0)
        return -1;
    gatherer->listener = listen_at(AF_INET6, err);
    if (gatherer->listener < 0)
        gatherer->listener = listen_at(AF_INET, err);
    if (gatherer->listener < 0)
        return -1;
    if (getsockname(gatherer->listener, (struct sockaddr *)&address, &bytes) < 0)
        return belay_error_errno(err, "cannot listen for other hosts");
    uint16_t port = address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                                  : ((struct sockaddr_in *)&address)->sin_port;
    return tell_addresses(ntohs(port), err);
}

/* ---- strangers ---- */

static void take_stranger(struct gatherer *gatherer, struct stranger *place)
{
    struct belay_error err;
    int one = 1;
    int sock = accept4(gatherer->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (sock < 0)
        return;
    setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    *place = (struct stranger){session_await(sock, &gatherer->key, &err), clock_now_ms()};
}

/* Tell belay run who has come. */
static void tell_guest(const struct guest *guest, int sock)
{
    struct sockaddr_storage here, there;
    socklen_t here_bytes = sizeof here, there_bytes = sizeof there;
    char own[NI_MAXHOST] = "-", other[NI_MAXHOST] = "-";
    if (getsockname(sock, (struct sockaddr *)&here, &here_bytes) == 0 &&
        getpeername(sock, (struct sockaddr *)&there, &there_bytes) == 0) {
        numeric_name((struct sockaddr *)&here, here_bytes, own);
        numeric_name((struct sockaddr *)&there, there_bytes, other);
    }
    printf("joined %u %s %s %s\n", guest_node(guest), guest_name(guest), other, own);
    fflush(stdout);
}

/* A name is what a host's name may be. */
static bool is_name(const struct record *record)
{
    for (size_t i = 0; i < record->count; i++)
        if (record->bytes[i] <= ' ' || record->bytes[i] == '/' || record->bytes[i] == ',' ||
            record->bytes[i] > '~')
            return false;
    return record->kind == RECORD_JOINED && record->count > 0 && record->count <= HOST_NAME_MAX;
}

/* Of each node there is one: a second one is not let in. Returns 0, or -1 with err. */
static int take_in(struct gatherer *gatherer, struct session *session, const struct record *record,
                   struct belay_error *err)
{
    char name[HOST_NAME_MAX + 1];
    uint32_t node = session_node(session);
    if (!is_name(record) || node == 0 || node >= PLACEMENT_NODES_MAX || gatherer->guests[node]) {
        session_destroy(session);
        return belay_error_set(err, EPROTO, "a host joins in a way that makes no sense");
    }
    snprintf(name, sizeof name, "%.*s", (int)record->count, (const char *)record->bytes);
    int sock = session_fd(session);
    gatherer->guests[node] = guest_create(session, gatherer->folder, name, err);
    if (!gatherer->guests[node])
        return belay_error_prefix(err, "host %s", name);
    tell_guest(gatherer->guests[node], sock);
    return 0;
}

/* Returns 0, or -1 with err: it is none of ours. Taken in or not, its place is free when it is not one any
 * more. */
static int move_stranger(struct gatherer *gatherer, struct stranger *stranger, struct belay_error *err)
{
    struct record record;
    int rc = session_move(stranger->session, err);
    if (rc == 0)
        rc = session_take(stranger->session, &record, err);
    if (rc == 0 && clock_now_ms() - stranger->since_ms > STRANGER_MS)
        rc = belay_error_set(err, ETIMEDOUT, "it does not show that it has the job's key");
    if (rc > 0) {
        struct session *session = stranger->session;
        stranger->session = NULL;
        return take_in(gatherer, session, &record, err);
    }
    if (rc < 0) {
        session_destroy(stranger->session);
        stranger->session = NULL;
    }
    return rc;
}

/* ---- serving ---- */

static void move_all(struct gatherer *gatherer)
{
    struct belay_error err;
    gatherer->is_waiting = false;
    for (uint32_t i = 0; i < STRANGERS_MAX; i++) {
        struct stranger *stranger = &gatherer->strangers[i];
        if (!stranger->session)
            take_stranger(gatherer, stranger);
        if (stranger->session && move_stranger(gatherer, stranger, &err) < 0 &&
            gatherer->refused++ < REFUSED_TOLD)
            log_warning("a connection from another host is refused: %s%s", err.text,
                        gatherer->refused == REFUSED_TOLD ? "; no more of this is told" : "");
    }
    for (uint32_t node = 0; node < PLACEMENT_NODES_MAX; node++) {
        struct guest *guest = gatherer->guests[node];
        if (!guest || guest_move(guest, &gatherer->is_waiting, &err) == 0)
            continue;
        log_error("host %s is lost: %s", guest_name(guest), err.text);
        guest_destroy(guest);
        gatherer->guests[node] = NULL;
    }
}

/* A byte: it goes on in the background, and nobody is to wait for the end of our messages. False: it has
 * gone. */
static bool hear_belay_run(void)
{
    char byte;
    if (read(STDIN_FILENO, &byte, 1) <= 0)
        return false;
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null >= 0)
        dup2(null, STDERR_FILENO);
    if (null > STDERR_FILENO)
        close(null);
    return true;
}

/* False: belay run has gone. */
static bool wait_for_more(const struct gatherer *gatherer)
{
    static struct pollfd fds[2 + STRANGERS_MAX + PLACEMENT_NODES_MAX * GUEST_POLLS_MAX];
    nfds_t count = 0;
    fds[count++] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    fds[count++] = (struct pollfd){.fd = gatherer->listener, .events = POLLIN};
    for (uint32_t i = 0; i < STRANGERS_MAX; i++)
        if (gatherer->strangers[i].session)
            fds[count++] = (struct pollfd){.fd = session_fd(gatherer->strangers[i].session),
                                           .events = session_events(gatherer->strangers[i].session)};
    for (uint32_t node = 0; node < PLACEMENT_NODES_MAX; node++)
        if (gatherer->guests[node])
            count += guest_polls(gatherer->guests[node], fds + count);
    poll(fds, count, gatherer->is_waiting ? TAKEN_MS : ROLE_BEAT_MS);
    return fds[0].revents == 0 || hear_belay_run();
}

int role_gather(const char *folder)
{
    struct gatherer gatherer = {.folder = folder, .listener = -1};
    struct belay_error err = {0};
    static const int for_belay_run[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM}; /* which a terminal sends to all */
    for (size_t i = 0; i < sizeof for_belay_run / sizeof *for_belay_run; i++)
        signal(for_belay_run[i], SIG_IGN);
    if (begin(&gatherer, &err) < 0) {
        log_error("%s", err.text);
        return EXIT_FAILURE;
    }
    do
        move_all(&gatherer);
    while (wait_for_more(&gatherer));
    for (uint32_t node = 0; node < PLACEMENT_NODES_MAX; node++)
        guest_destroy(gatherer.guests[node]);
    for (uint32_t i = 0; i < STRANGERS_MAX; i++)
        session_destroy(gatherer.strangers[i].session);
    close(gatherer.listener);
    rmdir(folder);
    explicit_bzero(&gatherer.key, sizeof gatherer.key);
    return EXIT_SUCCESS;
}
