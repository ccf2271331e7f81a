/*
 * board.c - belay-board: the board of one launch (common/wire/board.h).
 *
 *     belay-board RANKS
 *
 * Says on standard output what BELAY_BOARD is to be, and "lost" when a node is lost. A byte on standard input
 * asks whether one is: "ok" is the answer if not. Serves until its standard input ends.
 * Whoever has not shown the token is a stranger: one frame of a fixed size is read of it, and few are served
 * at a time.
 */
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/util/log.h"
#include "common/wire/board.h"

#define RANKS_MAX 65536u
#define STRANGERS_MAX 64u
#define STRANGER_MS 10000
/* A lost node is noticed so many seconds after its last word: as long as a relay waits (relay/roles.h). */
#define KEEP_IDLE_S 1
#define KEEP_EACH_S 1
#define KEEP_COUNT 4
#define ASKED_MS 100  /* between two looks, while srun waits */
#define ALIVE_MS 2500 /* who has acknowledged something so recently is there */

struct text {
    char *bytes; /* NULL: not put yet */
    uint32_t count;
};

struct client {
    int sock; /* -1: free */
    bool is_known, is_waiting;
    bool is_arbiter;
    uint32_t rank;
    int64_t since_ms;
    struct board_frame frame; /* that comes, or is waited for */
    size_t frame_bytes;       /* of it that have come */
    char *body;               /* of a frame whose header has come whole; NULL: none */
    size_t body_bytes;
    char *out; /* an answer that is on its way */
    size_t out_count, out_done;
};

struct board {
    int listener;
    uint32_t ranks;
    uint8_t token[BOARD_TOKEN_BYTES];
    struct text *texts; /* by rank and key */
    bool *is_gone;      /* by rank */
    bool has_told_lost;
    bool is_asked; /* whether a node is lost: srun is about to end */
    struct client *clients;
    struct pollfd *polls; /* standard input, the listener, clients */
    size_t client_count;
};

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000ll + now.tv_nsec / 1000000;
}

/* ---- one client ---- */

static void answer_waiting(struct board *board, uint32_t rank);

static void drop(struct board *board, struct client *client)
{
    bool was_known = client->is_known;
    close(client->sock);
    free(client->body);
    free(client->out);
    *client = (struct client){.sock = -1, .rank = client->rank};
    if (!was_known)
        return;
    board->is_gone[client->rank] = true;
    answer_waiting(board, client->rank);
}

static struct text *text_of(struct board *board, const struct board_frame *frame)
{
    return &board->texts[(size_t)frame->rank * BOARD_KEYS + frame->key];
}

/* False: the client is to be dropped. */
static bool flush_out(struct client *client)
{
    while (client->out && client->out_done < client->out_count) {
        ssize_t sent = send(client->sock, client->out + client->out_done,
                            client->out_count - client->out_done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return errno == EAGAIN;
        client->out_done += (size_t)sent;
    }
    free(client->out);
    client->out = NULL;
    return true;
}

static bool try_answer(struct board *board, struct client *client)
{
    const struct text *text = text_of(board, &client->frame);
    if (!text->bytes && !board->is_gone[client->frame.rank])
        return true;
    struct board_frame answer = client->frame;
    answer.verb = text->bytes ? BOARD_TEXT : BOARD_GONE;
    answer.bytes = text->bytes ? text->count : 0;
    client->out = malloc(sizeof answer + answer.bytes);
    if (!client->out)
        return false;
    memcpy(client->out, &answer, sizeof answer);
    if (answer.bytes)
        memcpy(client->out + sizeof answer, text->bytes, answer.bytes);
    client->out_count = sizeof answer + answer.bytes;
    client->out_done = 0;
    client->is_waiting = false;
    return flush_out(client);
}

static void answer_waiting(struct board *board, uint32_t rank)
{
    for (size_t i = 0; i < board->client_count; i++) {
        struct client *client = &board->clients[i];
        if (client->sock >= 0 && client->is_waiting && client->frame.rank == rank &&
            !try_answer(board, client))
            shutdown(client->sock, SHUT_RDWR); /* it is dropped when it is looked at */
    }
}

static bool is_token(const struct board *board, const char *bytes)
{
    unsigned difference = 0;
    for (size_t i = 0; i < BOARD_TOKEN_BYTES; i++)
        difference |= (unsigned)((uint8_t)bytes[i] ^ board->token[i]);
    return difference == 0;
}

static bool check_frame(const struct board *board, const struct client *client)
{
    const struct board_frame *frame = &client->frame;
    if (frame->magic != BOARD_MAGIC || frame->rank >= board->ranks || frame->key >= BOARD_KEYS)
        return false;
    if (!client->is_known)
        return frame->verb == BOARD_HELLO && frame->bytes == BOARD_TOKEN_BYTES;
    if (client->is_waiting || client->out)
        return false;
    return (frame->verb == BOARD_PUT && frame->bytes < BOARD_TEXT_BYTES) ||
           ((frame->verb == BOARD_GET || frame->verb == BOARD_LOST || frame->verb == BOARD_STAY) &&
            frame->bytes == 0);
}

static bool take_put(struct board *board, struct client *client)
{
    client->frame.rank = client->rank;
    struct text *text = text_of(board, &client->frame);
    if (text->bytes)
        return false; /* a text is put once */
    *text = (struct text){client->body ? client->body : calloc(1, 1), client->frame.bytes};
    client->body = NULL;
    if (!text->bytes)
        return false;
    answer_waiting(board, client->rank);
    return true;
}

/* Once: srun looks when the step has ended. */
static void tell_lost(struct board *board)
{
    if (!board->has_told_lost && write(STDOUT_FILENO, "lost\n", 5) == 5)
        board->has_told_lost = true;
}

/* From now on the kernel asks its host whether that is there. */
static bool watch_arbiter(struct client *client)
{
    const int on = 1, idle = KEEP_IDLE_S, each = KEEP_EACH_S, count = KEEP_COUNT;
    client->is_arbiter = true;
    return setsockopt(client->sock, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on) == 0 &&
           setsockopt(client->sock, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle) == 0 &&
           setsockopt(client->sock, IPPROTO_TCP, TCP_KEEPINTVL, &each, sizeof each) == 0 &&
           setsockopt(client->sock, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count) == 0;
}

static bool is_silent(const struct client *client)
{
    struct tcp_info info;
    socklen_t bytes = sizeof info;
    return getsockopt(client->sock, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 &&
           info.tcpi_last_ack_recv > ALIVE_MS;
}

/* The answer to srun, unless a host is silent whose loss is about to be seen. */
static void answer_srun(struct board *board)
{
    for (size_t i = 0; i < board->client_count; i++)
        if (board->clients[i].sock >= 0 && board->clients[i].is_arbiter && is_silent(&board->clients[i]))
            return;
    if (write(STDOUT_FILENO, "ok\n", 3) == 3)
        board->is_asked = false;
}

/* Its bytes have come whole. */
static bool take_frame(struct board *board, struct client *client)
{
    client->frame_bytes = client->body_bytes = 0;
    if (client->frame.verb == BOARD_PUT)
        return take_put(board, client);
    if (client->frame.verb == BOARD_LOST) {
        tell_lost(board);
        return true;
    }
    if (client->frame.verb == BOARD_STAY)
        return watch_arbiter(client);
    if (client->frame.verb == BOARD_GET) {
        client->is_waiting = true;
        return try_answer(board, client);
    }
    bool is_ours = is_token(board, client->body);
    free(client->body);
    client->body = NULL;
    client->is_known = is_ours;
    client->rank = client->frame.rank;
    if (is_ours)
        board->is_gone[client->rank] = false; /* a script that is a rank may execute another program */
    return is_ours;
}

/* Did the kernel find that the host of the other end is not there? */
static bool is_host_lost(int code)
{
    return code == ETIMEDOUT || code == EHOSTUNREACH || code == EHOSTDOWN || code == ENETUNREACH;
}

/* What has come of a frame. False: the client has ended, or says what makes no sense. */
static bool read_more(struct board *board, struct client *client)
{
    bool is_head = client->frame_bytes < sizeof client->frame;
    char *to = is_head ? (char *)&client->frame + client->frame_bytes : client->body + client->body_bytes;
    size_t room =
        is_head ? sizeof client->frame - client->frame_bytes : client->frame.bytes - client->body_bytes;
    if (client->is_waiting) { /* nothing is to come but its end */
        char byte;
        return recv(client->sock, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
    }
    ssize_t got = recv(client->sock, to, room, MSG_DONTWAIT);
    if (got < 0 && client->is_arbiter && is_host_lost(errno)) {
        tell_lost(board);
        return false;
    }
    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    if (got == 0)
        return false;
    *(is_head ? &client->frame_bytes : &client->body_bytes) += (size_t)got;
    if (is_head && client->frame_bytes < sizeof client->frame)
        return true;
    if (is_head) {
        if (!check_frame(board, client))
            return false;
        client->body = client->frame.bytes ? malloc(client->frame.bytes) : NULL;
        if (client->frame.bytes && !client->body)
            return false;
    }
    return client->body_bytes < client->frame.bytes || take_frame(board, client);
}

/* ---- all of them ---- */

static bool grow(struct board *board)
{
    size_t count = board->client_count ? 2 * board->client_count : 64;
    struct client *clients = reallocarray(board->clients, count, sizeof *clients);
    if (clients)
        board->clients = clients;
    struct pollfd *polls = clients ? reallocarray(board->polls, count + 2, sizeof *polls) : NULL;
    if (!polls)
        return false;
    board->polls = polls;
    while (board->client_count < count)
        board->clients[board->client_count++] = (struct client){.sock = -1};
    return true;
}

static void take_stranger(struct board *board)
{
    struct client *place = NULL;
    unsigned strangers = 0;
    int sock = accept4(board->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (sock < 0)
        return;
    for (size_t i = 0; i < board->client_count; i++) {
        strangers += board->clients[i].sock >= 0 && !board->clients[i].is_known;
        if (!place && board->clients[i].sock < 0)
            place = &board->clients[i];
    }
    if (!place && grow(board))
        place = &board->clients[board->client_count / 2];
    if (!place || strangers >= STRANGERS_MAX) {
        close(sock);
        return;
    }
    *place = (struct client){.sock = sock, .since_ms = now_ms()};
}

/* Returns how long to wait for the next thing to do. */
static int prepare(struct board *board)
{
    unsigned strangers = 0;
    int64_t late_ms = now_ms() - STRANGER_MS;
    for (size_t i = 0; i < board->client_count; i++) {
        struct client *client = &board->clients[i];
        if (client->sock >= 0 && !client->is_known && client->since_ms < late_ms)
            drop(board, client);
        strangers += client->sock >= 0 && !client->is_known;
        board->polls[i + 2] =
            (struct pollfd){.fd = client->sock, .events = (short)(client->out ? POLLOUT : POLLIN)};
    }
    board->polls[0] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    /* Others wait in the listener's queue. */
    board->polls[1] =
        (struct pollfd){.fd = strangers < STRANGERS_MAX ? board->listener : -1, .events = POLLIN};
    return board->is_asked ? ASKED_MS : strangers > 0 ? 1000 : -1;
}

/* srun asks, or has ended. Returns whether it is there. */
static bool hear_srun(struct board *board)
{
    char byte;
    if (read(STDIN_FILENO, &byte, 1) != 1)
        return false;
    board->is_asked = true;
    return true;
}

static void serve(struct board *board)
{
    for (;;) {
        size_t count = board->client_count;
        if (poll(board->polls, count + 2, prepare(board)) < 0 && errno != EINTR)
            return;
        if (board->polls[0].revents && !hear_srun(board))
            return;
        for (size_t i = 0; i < count; i++) {
            struct client *client = &board->clients[i];
            short events = board->polls[i + 2].revents;
            if (client->sock < 0 || !events)
                continue;
            if ((client->out && !flush_out(client)) || (!client->out && !read_more(board, client)))
                drop(board, client);
        }
        if (board->polls[1].revents)
            take_stranger(board);
        if (board->is_asked)
            answer_srun(board);
    }
}

/* ---- its begin ---- */

static int listen_at(int family, uint16_t *port)
{
    int off = 0;
    bool is_six = family == AF_INET6;
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    struct sockaddr *address = is_six ? (void *)&six : (void *)&four;
    socklen_t bytes = is_six ? sizeof six : sizeof four;
    int sock = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (sock < 0)
        return -1;
    if (is_six)
        setsockopt(sock, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(sock, address, bytes) < 0 || listen(sock, SOMAXCONN) < 0 ||
        getsockname(sock, address, &bytes) < 0) {
        close(sock);
        return -1;
    }
    *port = ntohs(is_six ? six.sin6_port : four.sin_port);
    return sock;
}

/* Of the interfaces that are up; the loopback one only if there is no other. Returns how many. */
static unsigned tell_addresses(const struct ifaddrs *all, bool is_loopback)
{
    char name[NI_MAXHOST];
    unsigned told = 0;
    for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
        int family = one->ifa_addr ? one->ifa_addr->sa_family : AF_UNSPEC;
        const struct sockaddr_in6 *six = (void *)one->ifa_addr;
        bool is_six = family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr);
        if ((family != AF_INET && !is_six) || !(one->ifa_flags & IFF_UP) ||
            !!(one->ifa_flags & IFF_LOOPBACK) != is_loopback)
            continue;
        if (getnameinfo(one->ifa_addr, is_six ? sizeof *six : sizeof(struct sockaddr_in), name, sizeof name,
                        NULL, 0, NI_NUMERICHOST) == 0) {
            printf(" %s", name);
            told++;
        }
    }
    return told;
}

static int begin(struct board *board)
{
    struct ifaddrs *all;
    uint16_t port = 0;
    board->texts = calloc((size_t)board->ranks * BOARD_KEYS, sizeof *board->texts);
    board->is_gone = calloc(board->ranks, sizeof *board->is_gone);
    board->listener = listen_at(AF_INET6, &port);
    if (board->listener < 0)
        board->listener = listen_at(AF_INET, &port);
    if (!board->texts || !board->is_gone || !grow(board) || board->listener < 0 ||
        getrandom(board->token, sizeof board->token, 0) != sizeof board->token || getifaddrs(&all) < 0)
        return -1;
    printf("%u ", port);
    for (size_t i = 0; i < sizeof board->token; i++)
        printf("%02x", board->token[i]);
    if (tell_addresses(all, false) == 0)
        tell_addresses(all, true);
    freeifaddrs(all);
    printf("\n");
    return fflush(stdout);
}

/* One descriptor for each rank. */
static void raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int main(int argc, char **argv)
{
    struct board board = {.listener = -1};
    char *end = NULL;
    unsigned long ranks = argc == 2 ? strtoul(argv[1], &end, 10) : 0;
    if (ranks == 0 || ranks > RANKS_MAX || *end) {
        log_error("belay-board is started by srun, for 1 to %u ranks", RANKS_MAX);
        return EXIT_FAILURE;
    }
    board.ranks = (uint32_t)ranks;
    raise_limit();
    if (begin(&board) < 0) {
        log_error("ranks cannot meet: %s", strerror(errno));
        return EXIT_FAILURE;
    }
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(null, STDERR_FILENO); /* nobody is to wait for the end of what we say */
    signal(SIGPIPE, SIG_IGN);
    serve(&board);
    return EXIT_SUCCESS;
}
