#include "common/wire/board_client.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECT_MS 5000
#define ANSWER_MS 10000 /* for bytes that are on their way */

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000ll + now.tv_nsec / 1000000;
}

static bool is_ready(int sock, short events, int64_t until_ms)
{
    struct pollfd ready = {.fd = sock, .events = events};
    for (int64_t left; (left = until_ms - now_ms()) > 0;) {
        int rc = poll(&ready, 1, (int)left);
        if (rc > 0 || (rc < 0 && errno != EINTR))
            return rc > 0;
    }
    return false;
}

/* Returns 0 or -1 with errno. */
static int send_all(int sock, const void *bytes, size_t count)
{
    for (const char *at = bytes; count > 0;) {
        ssize_t sent = send(sock, at, count, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN && is_ready(sock, POLLOUT, now_ms() + ANSWER_MS))
            continue;
        if (sent < 0 && errno != EINTR)
            return -1;
        at += sent > 0 ? sent : 0;
        count -= sent > 0 ? (size_t)sent : 0;
    }
    return 0;
}

static int take_all(int sock, void *bytes, size_t count, int64_t until_ms)
{
    for (char *at = bytes; count > 0;) {
        ssize_t got = recv(sock, at, count, 0);
        if (got < 0 && errno == EAGAIN && !is_ready(sock, POLLIN, until_ms)) {
            errno = ETIMEDOUT;
            return -1;
        }
        if (got == 0)
            errno = ECONNRESET;
        if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
            return -1;
        at += got > 0 ? got : 0;
        count -= got > 0 ? (size_t)got : 0;
    }
    return 0;
}

static int send_frame(int sock, const struct board_frame *frame, const void *bytes, struct belay_error *err)
{
    if (send_all(sock, frame, sizeof *frame) == 0 && send_all(sock, bytes, frame->bytes) == 0)
        return 0;
    return belay_error_errno(err, "the launcher's board cannot be reached");
}

static int connect_to(const char *address, const char *port)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM}, *found;
    int one = 1, failed = 0;
    socklen_t bytes = sizeof failed;
    if (getaddrinfo(address, port, &hints, &found) != 0)
        return -1;
    int sock = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int rc = sock < 0 ? -1 : connect(sock, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    if (rc < 0 && sock >= 0 && errno == EINPROGRESS && is_ready(sock, POLLOUT, now_ms() + CONNECT_MS) &&
        getsockopt(sock, SOL_SOCKET, SO_ERROR, &failed, &bytes) == 0 && failed == 0)
        rc = 0;
    if (rc == 0) {
        setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        return sock;
    }
    if (sock >= 0)
        close(sock);
    return -1;
}

static bool read_token(const char *digits, uint8_t token[BOARD_TOKEN_BYTES])
{
    if (strlen(digits) != 2 * BOARD_TOKEN_BYTES ||
        strspn(digits, "0123456789abcdef") != 2 * BOARD_TOKEN_BYTES)
        return false;
    for (size_t i = 0; i < BOARD_TOKEN_BYTES; i++) {
        const char pair[] = {digits[2 * i], digits[2 * i + 1], '\0'};
        token[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return true;
}

int board_open(const char *where, uint32_t rank, struct belay_error *err)
{
    char line[BOARD_LINE_BYTES], *rest = line;
    struct board_frame hello = {
        .magic = BOARD_MAGIC, .verb = BOARD_HELLO, .rank = rank, .bytes = BOARD_TOKEN_BYTES};
    uint8_t token[BOARD_TOKEN_BYTES];
    int sock = -1;
    snprintf(line, sizeof line, "%s", where);
    const char *port = strsep(&rest, " "), *digits = rest ? strsep(&rest, " ") : "";
    if (!read_token(digits, token) || !rest)
        return belay_error_set(err, EINVAL, "%s makes no sense", BOARD_VARIABLE);
    for (const char *address; sock < 0 && (address = strsep(&rest, " "));)
        sock = connect_to(address, port);
    explicit_bzero(line, sizeof line);
    if (sock < 0)
        belay_error_set(err, EHOSTUNREACH, "the launcher's host cannot be reached at port %s", port);
    else if (send_frame(sock, &hello, token, err) < 0) {
        close(sock);
        sock = -1;
    }
    explicit_bzero(token, sizeof token);
    return sock;
}

int board_put(int sock, enum board_key key, const char *text, struct belay_error *err)
{
    size_t length = strlen(text);
    struct board_frame put = {
        .magic = BOARD_MAGIC, .verb = BOARD_PUT, .key = (uint32_t)key, .bytes = (uint32_t)length};
    if (length >= BOARD_TEXT_BYTES)
        return belay_error_set(err, E2BIG, "a text of this rank is too long");
    return send_frame(sock, &put, text, err);
}

int board_get(int sock, uint32_t rank, enum board_key key, int timeout_ms, char text[BOARD_TEXT_BYTES],
              struct belay_error *err)
{
    const struct board_frame get = {
        .magic = BOARD_MAGIC, .verb = BOARD_GET, .rank = rank, .key = (uint32_t)key};
    struct board_frame answer;
    if (send_frame(sock, &get, NULL, err) < 0)
        return -1;
    if (take_all(sock, &answer, sizeof answer, now_ms() + timeout_ms) < 0)
        return belay_error_errno(err, "rank %u has not been heard", rank);
    if (answer.magic == BOARD_MAGIC && answer.verb == BOARD_GONE)
        return belay_error_set(err, ENODATA, "rank %u has ended", rank);
    if (answer.magic != BOARD_MAGIC || answer.verb != BOARD_TEXT || answer.bytes >= BOARD_TEXT_BYTES)
        return belay_error_set(err, EPROTO, "the launcher's board is of another version of Belay");
    if (take_all(sock, text, answer.bytes, now_ms() + ANSWER_MS) < 0)
        return belay_error_errno(err, "rank %u has not been heard", rank);
    text[answer.bytes] = '\0';
    return 0;
}

int board_say_lost(int sock, struct belay_error *err)
{
    const struct board_frame lost = {.magic = BOARD_MAGIC, .verb = BOARD_LOST};
    return send_frame(sock, &lost, NULL, err);
}

int board_stay(int sock, struct belay_error *err)
{
    const struct board_frame stay = {.magic = BOARD_MAGIC, .verb = BOARD_STAY};
    return send_frame(sock, &stay, NULL, err);
}
