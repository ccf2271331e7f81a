/*
 * keeper.c - belay-keeper: holds descriptors by name, so that they outlive the agent that made them.
 *
 * Started by the agent with the listening socket as descriptor 3. It understands the datagrams described
 * in store/keeper.h, kills the ranks of a job when the lease of its node is over, allocates little and does
 * nothing else, so that it has no reason to fail. It leaves when no agent is connected and either nothing is
 * held or the retention time is over.
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
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/error.h"
#include "common/util/log.h"
#include "common/util/private_memory.h"
#include "common/wire/descriptor.h"
#include "common/wire/fence.h"
#include "common/wire/peer.h"
#include "node-agent/store/keeper.h"

#define MAX_CLIENTS 8
#define FIRST_CLIENT_MS 10000
#define LONGEST_MS (100ull * 365 * 86400 * 1000)
#define LONGEST_WAIT_MS 60000
#define KILL_STEP_MS 200 /* until processes that were killed are looked at again */

struct held {
    struct held *next;
    int fd;
    struct fence *fence; /* a page that says until when ranks may run; NULL: it is something else */
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
static uint64_t kill_fenced(void);
static void map_fence(struct held *held);
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

static void serve(void)
{
    deadline_ms = (uint64_t)clock_now_ms() + FIRST_CLIENT_MS;
    while (client_count() > 0 || (uint64_t)clock_now_ms() < deadline_ms) {
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

/* Until the keeper may leave, or a lease is over. */
static int wait_ms(void)
{
    uint64_t now = (uint64_t)clock_now_ms(), left = LONGEST_WAIT_MS, lease_ms = kill_fenced();
    if (client_count() == 0)
        left = now >= deadline_ms ? 0 : deadline_ms - now;
    left = lease_ms < left ? lease_ms : left;
    return client_count() > 0 && lease_ms == UINT64_MAX ? -1
           : left > LONGEST_WAIT_MS                     ? LONGEST_WAIT_MS
                                                        : (int)left;
}

static bool is_fence(const char *name)
{
    size_t length = strlen(name), ending = sizeof KEEPER_FENCE - 1;
    return length > ending && !strcmp(name + length - ending, KEEPER_FENCE);
}

/* A page that cannot be mapped is held as all else. */
static void map_fence(struct held *held)
{
    struct belay_error err;
    if (held->fence)
        munmap(held->fence, FENCE_BYTES);
    held->fence = NULL;
    if (!is_fence(held->name) || descriptor_check_memory(held->fd, FENCE_BYTES, held->name, &err) < 0)
        return;
    void *page = mmap(NULL, FENCE_BYTES, PROT_READ, MAP_SHARED, held->fd, 0);
    held->fence = page == MAP_FAILED ? NULL : page;
}

/* Is it a process of the job whose fence this is? */
static bool is_process_of(const struct held *held, const struct held *fence)
{
    size_t job = strlen(fence->name) - (sizeof KEEPER_FENCE - 1);
    return !strncmp(held->name, fence->name, job) &&
           !strncmp(held->name + job, KEEPER_PROCESS, sizeof KEEPER_PROCESS - 1);
}

/* Those that are gone do not count. */
static bool kill_processes(const struct held *fence)
{
    bool is_any = false;
    for (const struct held *held = all; held; held = held->next)
        if (is_process_of(held, fence))
            is_any |= pidfd_send_signal(held->fd, SIGKILL, NULL, 0) == 0;
    return is_any;
}

/* Kill the ranks whose lease is over. Returns how long the next one lasts, UINT64_MAX: there is none. */
static uint64_t kill_fenced(void)
{
    uint64_t next_ms = UINT64_MAX;
    for (const struct held *held = all; held; held = held->next) {
        uint64_t until_ns = held->fence ? __atomic_load_n(&held->fence->until_ns, __ATOMIC_ACQUIRE) : 0;
        uint64_t now_ns = fence_now_ns(), left_ms = KILL_STEP_MS;
        if (until_ns == 0)
            continue;
        if (now_ns < until_ns)
            left_ms = (until_ns - now_ns) / 1000000 + 1;
        else if (!kill_processes(held))
            continue;
        next_ms = left_ms < next_ms ? left_ms : next_ms;
    }
    return next_ms;
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
            if (found->fence)
                munmap(found->fence, FENCE_BYTES);
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
            map_fence(held);
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
    map_fence(held);
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
    deadline_ms = all ? (uint64_t)clock_now_ms() + retain_ms : 0;
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
