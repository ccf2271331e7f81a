/*
 * keeper.c - belay-keeper: holds descriptors by name, so that they outlive the agent that made them.
 *
 * Started by the agent with the listening socket as descriptor 3. It understands the datagrams described
 * in store/keeper.h, allocates little and does nothing else, so that it has no reason to fail. It
 * leaves when no agent is connected and either nothing is held or the retention time is over.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "common/util/error.h"
#include "common/util/log.h"
#include "common/util/private_memory.h"
#include "common/wire/peer.h"
#include "node-agent/store/keeper.h"

#define MAX_CLIENTS 8
#define FIRST_CLIENT_MS 10000
#define LONGEST_MS (100ull * 365 * 86400 * 1000)

struct held {
    struct held *next;
    int fd;
    char name[KEEPER_NAME_BYTES];
};

static const struct timeval send_time = {.tv_sec = 5}; /* to a client that does not read: others wait */
static struct held *all;                               /* everything held */
static int clients[MAX_CLIENTS];     /* connected agents (one, two for a moment), -1: free */
static uint64_t retain_ms = 3600000; /* how long things are held without an agent */
static uint64_t deadline_ms;         /* leave then, unless a client comes; valid without clients */

static int parse_arguments(int argc, char **argv, const char **rundir);
static void serve(void);
static int wait_ms(void);
static void accept_client(void);
static void serve_client(int *client);
static int client_count(void);
static void leave(const char *rundir);

int main(int argc, char **argv)
{
    const char *rundir;
    if (parse_arguments(argc, argv, &rundir) < 0)
        return 2;
    private_memory_begin();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    for (int i = 0; i < MAX_CLIENTS; i++)
        clients[i] = -1;
    serve();
    leave(rundir);
    return 0;
}

static int parse_arguments(int argc, char **argv, const char **rundir)
{
    if (argc != 3 || strcmp(argv[1], "--rundir") || fcntl(KEEPER_LISTEN_FD, F_GETFD) < 0) {
        log_error("belay-keeper is started by belayd, not by hand");
        return -1;
    }
    *rundir = argv[2];
    return 0;
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void serve(void)
{
    deadline_ms = now_ms() + FIRST_CLIENT_MS;
    while (client_count() > 0 || now_ms() < deadline_ms) {
        struct pollfd wait[MAX_CLIENTS + 1] = {{.fd = KEEPER_LISTEN_FD, .events = POLLIN}};
        int *who[MAX_CLIENTS + 1], count = 1; /* no more than there are: poll(2) fails beyond ulimit -n */
        for (int i = 0; i < MAX_CLIENTS; i++) {
            if (clients[i] < 0)
                continue;
            wait[count] = (struct pollfd){.fd = clients[i], .events = POLLIN};
            who[count++] = &clients[i];
        }
        if (poll(wait, (nfds_t)count, wait_ms()) < 0 && errno != EINTR)
            return;
        for (int i = 1; i < count; i++)
            if (wait[i].revents)
                serve_client(who[i]);
        if (wait[0].revents)
            accept_client();
    }
}

static int wait_ms(void)
{
    uint64_t now = now_ms();
    if (client_count() > 0)
        return -1;
    if (now >= deadline_ms)
        return 0;
    uint64_t left = deadline_ms - now;
    return left > 60000 ? 60000 : (int)left;
}

static int client_count(void)
{
    int count = 0;
    for (int i = 0; i < MAX_CLIENTS; i++)
        count += clients[i] >= 0;
    return count;
}

static void accept_client(void)
{
    int sock = accept4(KEEPER_LISTEN_FD, NULL, NULL, SOCK_CLOEXEC);
    struct ucred peer;
    if (sock < 0)
        return;
    bool is_ours = peer_check_client(sock, &peer) == 0;
    setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &send_time, sizeof send_time);
    for (int i = 0; is_ours && i < MAX_CLIENTS; i++) {
        if (clients[i] < 0) {
            clients[i] = sock;
            return;
        }
    }
    close(sock);
}

static void drop(const char *name)
{
    for (struct held **at = &all; *at; at = &(*at)->next) {
        if (!strcmp((*at)->name, name)) {
            struct held *found = *at;
            *at = found->next;
            close(found->fd);
            free(found);
            return;
        }
    }
}

/* What has the name already is replaced in one step: a reader sees the old or the new. */
static int put(const char *name, int fd)
{
    for (struct held *held = all; held; held = held->next) {
        if (!strcmp(held->name, name)) {
            close(held->fd);
            held->fd = fd;
            return 0;
        }
    }
    struct held *held = calloc(1, sizeof *held);
    if (!held)
        return -1;
    strcpy(held->name, name); /* its length was checked */
    held->fd = fd;
    held->next = all;
    all = held;
    return 0;
}

static void list(int sock)
{
    for (struct held *held = all; held; held = held->next) {
        char text[KEEPER_MESSAGE_BYTES];
        snprintf(text, sizeof text, "ITEM %s", held->name);
        if (keeper_send(sock, text, held->fd) < 0)
            return;
    }
    keeper_send(sock, "END", -1);
}

static void answer(int sock, char *text, int fd)
{
    char *name = strchr(text, ' ');
    if (name)
        *name++ = '\0';
    bool is_name = name && name[0] && strlen(name) < KEEPER_NAME_BYTES;
    const char *reply = "OK";
    if (fd == KEEPER_FD_LOST) {
        reply = "FULL";
    } else if (!strcmp(text, "PUT") && is_name && fd >= 0) {
        if (put(name, fd) == 0)
            fd = -1;
        else
            reply = "ERROR";
    } else if (!strcmp(text, "DROP") && is_name) {
        drop(name);
    } else if (!strcmp(text, "RETAIN") && is_name) {
        retain_ms = strtoull(name, NULL, 10);
        retain_ms = retain_ms < LONGEST_MS ? retain_ms : LONGEST_MS;
    } else if (!strcmp(text, "LIST")) {
        list(sock);
        reply = NULL;
    } else {
        reply = "ERROR";
    }
    if (fd >= 0)
        close(fd);
    if (reply)
        keeper_send(sock, reply, -1);
}

static void serve_client(int *client)
{
    char text[KEEPER_MESSAGE_BYTES];
    int fd;
    if (keeper_receive(*client, text, &fd) > 0) {
        answer(*client, text, fd);
        return;
    }
    int sock = *client;
    *client = -1;
    deadline_ms = all ? now_ms() + retain_ms : 0;
    if (client_count() > 0 || all)
        close(sock); /* otherwise we leave, and the end of the connection tells the agent that we have */
}

static void leave(const char *rundir)
{
    char path[256];
    snprintf(path, sizeof path, "%s/" KEEPER_SOCKET, rundir);
    unlink(path);
    rmdir(rundir); /* fails while the agent or a record is still there, as it should */
}
