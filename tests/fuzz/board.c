/*
 * The board of a launch (slurm-plugin/board.c), as strangers on the network and ranks speak to it, and what a
 * rank makes of the board's answers (common/wire/board_client.c). The first byte chooses: the answers; else
 * the board, which runs in a thread, and whether a frame that shows the token is put in front.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/wire/board_client.h"
#include "tests/fuzz/target.h"

#define RANKS "60000"
#define LOOKS 6 /* of the board, until it has seen all that was sent */

int board_main(int argc, char **argv); /* main() of the board */

static int to_board[2], from_board[2];
static unsigned port;
static uint8_t token[BOARD_TOKEN_BYTES];

static void *serve(void *unused)
{
    char name[] = "belay-board", ranks[] = RANKS, *argv[] = {name, ranks, NULL};
    (void)unused;
    board_main(2, argv);
    return NULL;
}

static void read_line(char *line, size_t room)
{
    size_t used = 0;
    while (used + 1 < room && read(from_board[0], line + used, 1) == 1 && line[used++] != '\n')
        ;
    line[used] = '\0';
}

/* It answers when it has looked at everything that had come. */
static void look(void)
{
    char line[64];
    must(write(to_board[1], "?", 1) == 1);
    do
        read_line(line, sizeof line);
    while (!strcmp(line, "lost\n"));
    must(!strcmp(line, "ok\n"));
}

/* The board speaks by the standard streams, and closes what goes to standard error. */
static void begin(void)
{
    char line[BOARD_LINE_BYTES], digits[3] = "";
    int errors = dup(STDERR_FILENO), place;
    pthread_t thread;
    must(pipe(to_board) == 0 && pipe(from_board) == 0);
    must(dup2(to_board[0], STDIN_FILENO) == STDIN_FILENO &&
         dup2(from_board[1], STDOUT_FILENO) == STDOUT_FILENO);
    must(pthread_create(&thread, NULL, serve, NULL) == 0);
    read_line(line, sizeof line);
    must(sscanf(line, "%u %n", &port, &place) == 1);
    for (size_t i = 0; i < sizeof token; i++) {
        memcpy(digits, line + (size_t)place + 2 * i, 2);
        token[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    look();
    must(dup2(errors, STDERR_FILENO) == STDERR_FILENO && close(errors) == 0);
}

static void say(const uint8_t *bytes, size_t count, bool shows_token)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct board_frame hello = {.magic = BOARD_MAGIC, .verb = BOARD_HELLO, .rank = 1, .bytes = sizeof token};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(sock >= 0 && connect(sock, (struct sockaddr *)&at, sizeof at) == 0);
    if (shows_token)
        must(send(sock, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello &&
             send(sock, token, sizeof token, MSG_NOSIGNAL) == sizeof token);
    send(sock, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
    for (int i = 0; i < LOOKS; i++)
        look();
    close(sock);
    look();
}

/* What the board says to a rank that asks. */
static void hear(const uint8_t *bytes, size_t count)
{
    static char text[BOARD_TEXT_BYTES];
    int pair[2];
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    must(send(pair[1], bytes, count, MSG_NOSIGNAL) == (ssize_t)count && shutdown(pair[1], SHUT_WR) == 0);
    if (board_get(pair[0], 1, BOARD_HOST, 1000, text, NULL) == 0)
        must(strlen(text) < sizeof text);
    close(pair[0]);
    close(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    if (count == 0)
        return 0;
    if (!port)
        begin();
    if (bytes[0] % 4 == 0)
        hear(bytes + 1, count - 1);
    else
        say(bytes + 1, count - 1, bytes[0] & 1);
    return 0;
}
