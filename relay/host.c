/* host.c - the relay of a host: see roles.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/wire/belay.pb-c.h"
#include "common/wire/client.h"
#include "common/wire/peer.h"
#include "common/wire/placement.h"
#include "common/wire/rundir.h"
#include "relay/key.h"
#include "relay/linger.h"
#include "relay/local.h"
#include "relay/mirror.h"
#include "relay/roles.h"

#define CONNECT_MS 5000
#define CHANNELS_MAX 64u

struct host {
    const struct role_host *of;
    char rundir[PATH_MAX];
    struct session *session;
    struct local *channels[CHANNELS_MAX]; /* connections to the agent; NULL: free */
    struct tap *tap;                      /* of the newest job that was opened; NULL: none */
    int64_t beat_ms;
    bool is_welcome;
};

/* ---- joining ---- */

static int make_folders(struct host *host, const char *name, struct belay_error *err)
{
    if (placement_hosts_dir(host->rundir, sizeof host->rundir, host->of->rundir, err) < 0 ||
        rundir_make(host->rundir, err) < 0 ||
        placement_host_rundir(host->rundir, sizeof host->rundir, host->of->rundir, name, err) < 0 ||
        rundir_make(host->rundir, err) < 0)
        return -1;
    return 0;
}

static int find_rundir(struct host *host, struct belay_error *err)
{
    char name[HOST_NAME_MAX + 1];
    if (gethostname(name, sizeof name) < 0)
        return belay_error_errno(err, "this host has no name");
    int held = rundir_hold(host->of->rundir, err); /* until there is something in it */
    if (held < 0)
        return -1;
    int rc = make_folders(host, name, err);
    close(held);
    return rc;
}

static int connect_one(const char *address, uint16_t port)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM}, *found;
    char service[8];
    int one = 1;
    snprintf(service, sizeof service, "%u", port);
    if (getaddrinfo(address, service, &hints, &found) != 0)
        return -1;
    int sock = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int rc = sock < 0 ? -1 : connect(sock, found->ai_addr, found->ai_addrlen), failed = 0;
    socklen_t bytes = sizeof failed;
    freeaddrinfo(found);
    struct pollfd ready = {.fd = sock, .events = POLLOUT};
    if (rc < 0 && sock >= 0 && errno == EINPROGRESS && poll(&ready, 1, CONNECT_MS) > 0 &&
        getsockopt(sock, SOL_SOCKET, SO_ERROR, &failed, &bytes) == 0)
        rc = failed ? -1 : 0;
    if (rc == 0)
        setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (rc < 0 && sock >= 0)
        close(sock);
    return rc == 0 ? sock : -1;
}

/* Move the session, and wait up to so long for more. */
static int step(struct session *session, int timeout_ms, struct belay_error *err)
{
    struct pollfd wait = {.fd = session_fd(session), .events = session_events(session)};
    poll(&wait, 1, timeout_ms);
    return session_move(session, err);
}

/* Returns the session when it is open, NULL with err. */
static struct session *open_session(const struct role_host *of, const char *address,
                                    const struct session_key *key, struct belay_error *err)
{
    int sock = connect_one(address, of->port);
    if (sock < 0) {
        belay_error_set(err, EHOSTUNREACH, "the job's arbiter cannot be reached at %s", address);
        return NULL;
    }
    struct session *session = session_begin(sock, key, of->node, err);
    int64_t until_ms = clock_now_ms() + CONNECT_MS;
    int rc = session ? 0 : -1;
    while (rc == 0 && !session_is_open(session)) {
        rc = step(session, ROLE_BEAT_MS, err);
        if (rc == 0 && clock_now_ms() > until_ms)
            rc = belay_error_set(err, ETIMEDOUT, "the job's arbiter does not answer at %s", address);
    }
    if (rc == 0)
        return session;
    session_destroy(session);
    return NULL;
}

static int say(struct host *host, enum record_kind kind, uint32_t channel, const void *bytes, size_t count)
{
    const struct record record = {.kind = kind, .channel = channel, .bytes = bytes, .count = count};
    return session_put(host->session, &record, NULL, 0);
}

/* The gatherer knows this host's relay, or has another one of it already. */
static int await_welcome(struct host *host, struct belay_error *err)
{
    struct record record;
    char name[HOST_NAME_MAX + 1];
    int64_t until_ms = clock_now_ms() + CONNECT_MS;
    if (gethostname(name, sizeof name) < 0 || say(host, RECORD_JOINED, 0, name, strlen(name)) < 0)
        return belay_error_errno(err, "this host cannot join");
    for (int rc = 0; rc == 0;) {
        if (step(host->session, ROLE_BEAT_MS, err) < 0)
            return -1;
        rc = session_take(host->session, &record, err);
        if (rc > 0 && record.kind == RECORD_WELCOME)
            return 0;
        if (rc != 0)
            return rc < 0
                       ? -1
                       : belay_error_set(err, EPROTO, "the job's arbiter says something else than welcome");
        if (clock_now_ms() > until_ms)
            return belay_error_set(err, ETIMEDOUT, "the job's arbiter does not take this host in");
    }
    return 0;
}

static int join(struct host *host, struct belay_error *err)
{
    struct session_key key;
    if (find_rundir(host, err) < 0 || key_read(&key, err) < 0)
        return -1;
    for (char *const *address = host->of->addresses; !host->session && *address; address++)
        host->session = open_session(host->of, *address, &key, err);
    explicit_bzero(&key, sizeof key);
    return host->session ? await_welcome(host, err) : -1;
}

/* ---- clients of the agent ---- */

static struct local **find_channel(struct host *host, uint32_t channel)
{
    for (uint32_t i = 0; i < CHANNELS_MAX; i++)
        if (host->channels[i] && local_channel(host->channels[i]) == channel)
            return &host->channels[i];
    return NULL;
}

static int close_channel(struct host *host, struct local **place, const char *why)
{
    uint32_t channel = local_channel(*place);
    local_destroy(*place);
    *place = NULL;
    return say(host, RECORD_CLOSE, channel, why, strlen(why));
}

/* Another client: a connection to the agent, which this starts if there is none. */
static int open_channel(struct host *host, uint32_t channel)
{
    struct belay_error err;
    struct local **place = NULL;
    for (uint32_t i = 0; i < CHANNELS_MAX && !place; i++)
        place = host->channels[i] ? NULL : &host->channels[i];
    int sock = place ? agent_reach(host->rundir, host->of->belayd, &err) : -1;
    if (sock < 0) {
        const char *why = place ? err.text : "too many clients at a time";
        return say(host, RECORD_CLOSE, channel, why, strlen(why));
    }
    *place = local_create(sock, channel);
    return *place ? 0 : say(host, RECORD_CLOSE, channel, "out of memory", strlen("out of memory"));
}

/* Is it the answer to the opening of a job, which comes with the job's streams? */
static bool is_opened(const struct local_message *message)
{
    if (message->fd_count != LOCAL_FDS)
        return false;
    Belay__Wire__Reply *reply = belay__wire__reply__unpack(NULL, message->count, message->bytes);
    bool is_it = reply && reply->body_case == BELAY__WIRE__REPLY__BODY_JOB_OPENED;
    if (reply)
        belay__wire__reply__free_unpacked(reply, NULL);
    return is_it;
}

/* The other side makes memory of the same contents first. */
static int pass_streams(struct host *host, const struct local_message *message, struct belay_error *err)
{
    tap_destroy(host->tap);
    host->tap = tap_create(message->fds, err);
    if (!host->tap)
        return -1;
    return say(host, RECORD_STREAMS, 0, NULL, 0) < 0 || tap_send_all(host->tap, host->session, err) < 0 ? -1
                                                                                                        : 0;
}

/* What its ranks have written before the agent said this comes first. */
static int pass_message(struct host *host, uint32_t channel, const struct local_message *message,
                        struct belay_error *err)
{
    bool has_streams = is_opened(message);
    if (has_streams) {
        if (pass_streams(host, message, err) < 0)
            return -1;
    } else {
        for (unsigned i = 0; i < message->fd_count; i++)
            close(message->fds[i]);
    }
    if (host->tap && tap_look(host->tap, host->session, err) < 0)
        return -1;
    return say(host, has_streams ? RECORD_OPENED : RECORD_MESSAGE, channel, message->bytes, message->count) ==
                   0
               ? 0
               : belay_error_errno(err, "an answer of the agent cannot be passed on");
}

static int move_channel(struct host *host, struct local **place, struct belay_error *err)
{
    struct local_message message;
    int rc = local_flush(*place) == 0 ? 1 : -1;
    while (rc > 0) {
        rc = local_take(*place, &message);
        if (rc > 0 && pass_message(host, local_channel(*place), &message, err) < 0)
            return -1;
    }
    if (rc == 0)
        return 0;
    if (host->tap && tap_look(host->tap, host->session, err) < 0)
        return -1;
    return close_channel(host, place, "");
}

/* ---- what the gatherer says ---- */

static int take_message(struct host *host, const struct record *record)
{
    struct local **place = find_channel(host, record->channel);
    if (place && local_put(*place, record->bytes, record->count, NULL, 0) < 0)
        return close_channel(host, place, "");
    return 0;
}

/* The connection ends as those of all clients do when the agent dies. */
static void take_fence(struct host *host, uint32_t channel)
{
    struct local **place = find_channel(host, channel);
    if (place)
        peer_kill_server(local_fd(*place));
}

static int take_close(struct host *host, uint32_t channel)
{
    struct local **place = find_channel(host, channel);
    if (place) {
        local_destroy(*place);
        *place = NULL;
    }
    return 0;
}

static int take_record(struct host *host, const struct record *record, struct belay_error *err)
{
    switch (record->kind) {
    case RECORD_BEAT:
        return 0;
    case RECORD_OPEN:
        return open_channel(host, record->channel);
    case RECORD_CLOSE:
        return take_close(host, record->channel);
    case RECORD_FENCE:
        take_fence(host, record->channel);
        return 0;
    case RECORD_MESSAGE:
        return take_message(host, record);
    case RECORD_TAKEN:
    case RECORD_SLOT:
    case RECORD_INPUT:
        return host->tap ? tap_take(host->tap, record, err) : 0;
    default:
        return belay_error_set(err, EPROTO, "belay run says something that makes no sense");
    }
}

static int take_records(struct host *host, struct belay_error *err)
{
    struct record record;
    int rc = session_move(host->session, err) < 0 ? -1 : 1;
    while (rc > 0) {
        rc = session_take(host->session, &record, err);
        if (rc > 0 && take_record(host, &record, err) < 0)
            return -1;
    }
    return rc;
}

/* ---- serving ---- */

static int beat(struct host *host, struct belay_error *err)
{
    int64_t now_ms = clock_now_ms();
    if (now_ms - session_heard_ms(host->session) > ROLE_HOST_STALL_MS)
        return belay_error_set(err, ETIMEDOUT, "belay run is silent");
    if (now_ms < host->beat_ms)
        return 0;
    host->beat_ms = now_ms + ROLE_BEAT_MS;
    return say(host, RECORD_BEAT, 0, NULL, 0);
}

static void wait_for_more(const struct host *host)
{
    struct pollfd fds[CHANNELS_MAX + 2];
    nfds_t count = 0;
    fds[count++] = (struct pollfd){.fd = session_fd(host->session), .events = session_events(host->session)};
    if (host->tap)
        fds[count++] = (struct pollfd){.fd = tap_fd(host->tap), .events = POLLIN};
    for (uint32_t i = 0; i < CHANNELS_MAX; i++)
        if (host->channels[i])
            fds[count++] =
                (struct pollfd){.fd = local_fd(host->channels[i]), .events = local_events(host->channels[i])};
    poll(fds, count, ROLE_BEAT_MS);
}

static int serve_once(struct host *host, struct belay_error *err)
{
    if (take_records(host, err) < 0)
        return -1;
    for (uint32_t i = 0; i < CHANNELS_MAX; i++)
        if (host->channels[i] && move_channel(host, &host->channels[i], err) < 0)
            return -1;
    if (host->tap && tap_look(host->tap, host->session, err) < 0)
        return -1;
    return beat(host, err) < 0 ? -1 : session_move(host->session, err);
}

/* Nobody is to wait for the end of its messages. If it does not stay, the launcher that has started this may
 * end. */
static int go_to_background(bool stays, struct belay_error *err)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    pid_t pid = null < 0 ? -1 : stays ? 0 : fork();
    if (pid < 0)
        return belay_error_errno(err, "this host's relay cannot go to the background");
    if (pid > 0)
        _exit(EXIT_SUCCESS);
    setsid();
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
    return chdir("/");
}

static bool has_clients(const struct host *host)
{
    for (uint32_t i = 0; i < CHANNELS_MAX; i++)
        if (host->channels[i])
            return true;
    return false;
}

int role_host(const struct role_host *of)
{
    struct host host = {.of = of};
    struct belay_error err = {0};
    char name[HOST_NAME_MAX + 1] = "";
    if (join(&host, &err) < 0 || go_to_background(of->stays, &err) < 0) {
        gethostname(name, sizeof name);
        log_error("host %s: %s", name, err.text);
        session_destroy(host.session);
        return EXIT_FAILURE;
    }
    while (serve_once(&host, &err) == 0)
        wait_for_more(&host);
    bool is_given_up = has_clients(&host); /* otherwise they have left it */
    for (uint32_t i = 0; i < CHANNELS_MAX; i++)
        local_destroy(host.channels[i]);
    tap_destroy(host.tap);
    session_destroy(host.session);
    if (of->stays && is_given_up)
        linger(host.rundir);
    return EXIT_SUCCESS;
}
