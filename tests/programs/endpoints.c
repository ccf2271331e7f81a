/*
 * endpoints - sockets that are no pairs: bound, listening, aimed at a receiver, or only made. Each step sends
 * something to each, by a new connection where one is needed; options and names stay what they were.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <mpi.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/programs/incarnation.h"
#include "tests/programs/program.h"

#define NAME_BYTES 64
#define DEADLINE_MS 20000
#define LOOK_MS 20

static struct program program = {.steps = 100};
static long step;
static int epoll;

/* A socket to which others send. */
static struct place {
    int fd, family, type;
    socklen_t bytes;
    struct sockaddr_storage name;
} places[6];
static int place_count;
static int aimed, receiver, plain, routes;

static void check(bool is_fine, const char *what)
{
    if (!is_fine)
        fail(&program, "step %ld: %s: %s", step, what, strerror(errno));
}

static struct sockaddr_un file_name(const char *kind)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "data-%s-%d", kind, program.rank);
    return name;
}

static int open_place(int family, int type, const void *name, socklen_t bytes)
{
    struct place *place = &places[place_count++];
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = place};
    int fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    *place = (struct place){.fd = fd, .family = family, .type = type, .bytes = sizeof place->name};
    check(fd >= 0 && bind(fd, name, bytes) == 0, "bind");
    check(type == SOCK_DGRAM || listen(fd, 8) == 0, "listen");
    check(getsockname(fd, (struct sockaddr *)&place->name, &place->bytes) == 0, "getsockname");
    check(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
    return fd;
}

static void open_places(void)
{
    const struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_un name;
    int on = 1;
    open_place(AF_INET, SOCK_STREAM, &four, sizeof four);
    receiver = open_place(AF_INET, SOCK_DGRAM, &four, sizeof four);
    if (access("/proc/net/if_inet6", R_OK) == 0)
        open_place(AF_INET6, SOCK_STREAM, &six, sizeof six);
    name = file_name("stream");
    open_place(AF_UNIX, SOCK_STREAM, &name, sizeof name);
    open_place(AF_UNIX, SOCK_SEQPACKET, &name, sizeof(sa_family_t)); /* the kernel chooses a name */
    name = file_name("datagrams");
    open_place(AF_UNIX, SOCK_DGRAM, &name, sizeof name);
    check(chmod(name.sun_path, 0640) == 0, "chmod");
    setsockopt(places[0].fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(places[0].fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(receiver, SOL_SOCKET, SO_BROADCAST, &on, sizeof on);
}

static void open_others(void)
{
    struct sockaddr_nl nowhere = {.nl_family = AF_NETLINK};
    aimed = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    check(connect(aimed, (struct sockaddr *)&places[1].name, places[1].bytes) == 0, "aiming");
    plain = socket(AF_INET, SOCK_DGRAM, 0);
    routes = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    check(plain >= 0 && routes >= 0 && bind(routes, (struct sockaddr *)&nowhere, sizeof nowhere) == 0,
          "netlink");
}

/* Wait for something to read, unless a restart has taken it. */
static bool is_ready(int fd, long process)
{
    struct pollfd comes = {.fd = fd, .events = POLLIN};
    int ready = 0;
    for (int ms = 0; ms < DEADLINE_MS && ready == 0 && incarnation() == process; ms += LOOK_MS)
        ready = poll(&comes, 1, LOOK_MS);
    return ready == 1;
}

/* What comes at a place, a number; who connects has sent one before he is accepted. */
static bool receive(const struct place *place, long process, long *number)
{
    int from = !is_ready(place->fd, process) ? -1
               : place->type == SOCK_DGRAM   ? place->fd
                                             : accept(place->fd, NULL, NULL);
    bool is_here =
        from >= 0 && is_ready(from, process) && recv(from, number, sizeof *number, 0) == sizeof *number;
    if (from >= 0 && from != place->fd)
        close(from);
    return is_here;
}

static bool send_once(const struct place *place, long number, long process)
{
    struct epoll_event event = {.events = 0};
    long got = 0;
    int fd = socket(place->family, place->type | SOCK_CLOEXEC, 0);
    bool is_sent = connect(fd, (const struct sockaddr *)&place->name, place->bytes) == 0 &&
                   send(fd, &number, sizeof number, MSG_NOSIGNAL) == sizeof number &&
                   is_ready(epoll, process);
    bool is_told = is_sent && epoll_wait(epoll, &event, 1, 0) == 1 && event.data.ptr == place;
    bool is_received = is_told && receive(place, process, &got) && got == number;
    close(fd);
    return is_received;
}

/* Once more if a restart has taken the connection, or what was on its way. */
static void send_to(const struct place *place, long number)
{
    long process;
    bool is_done;
    do {
        process = incarnation();
        is_done = send_once(place, number, process);
    } while (!is_done && incarnation() != process);
    check(is_done, "a number for a place");
    digest_add_number(&program.digest, (uint64_t)number);
}

static void send_aimed(void)
{
    long process, number;
    bool is_done;
    do {
        process = incarnation();
        is_done = send(aimed, &step, sizeof step, 0) == sizeof step &&
                  receive(&places[1], process, &number) && number == step;
    } while (!is_done && incarnation() != process);
    check(is_done, "a number for the receiver");
}

/* Answers bear the number of the socket that has asked, which the program may have noted long ago. */
static bool is_last(const struct nlmsghdr *answer)
{
    static uint32_t number;
    struct sockaddr_nl name;
    socklen_t bytes = sizeof name;
    check(getsockname(routes, (struct sockaddr *)&name, &bytes) == 0, "netlink");
    number = number ? number : name.nl_pid;
    check(name.nl_pid == number && answer->nlmsg_pid == number, "the number of a netlink socket");
    return answer->nlmsg_type == NLMSG_DONE;
}

static bool ask_kernel(void)
{
    const struct {
        struct nlmsghdr head;
        struct rtgenmsg what;
    } ask = {{sizeof ask, RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 0, 0}, {AF_UNSPEC}};
    char answer[16384];
    bool is_done = false;
    long process = incarnation(), got = send(routes, &ask, sizeof ask, 0);
    while (got > 0 && !is_done && is_ready(routes, process)) {
        long left = got = recv(routes, answer, sizeof answer, 0);
        for (struct nlmsghdr *head = (struct nlmsghdr *)(void *)answer; NLMSG_OK(head, left);
             head = NLMSG_NEXT(head, left))
            is_done |= is_last(head);
    }
    return is_done || incarnation() != process;
}

static bool has(int fd, int level, int name)
{
    int value = 0;
    socklen_t bytes = sizeof value;
    return getsockopt(fd, level, name, &value, &bytes) == 0 && value != 0;
}

static void check_places(void)
{
    struct sockaddr_storage name;
    struct stat st;
    char path[NAME_BYTES];
    for (int i = 0; i < place_count; i++) {
        socklen_t bytes = sizeof name;
        check(getsockname(places[i].fd, (struct sockaddr *)&name, &bytes) == 0 && bytes == places[i].bytes &&
                  !memcmp(&name, &places[i].name, bytes),
              "a name");
        check(fcntl(places[i].fd, F_GETFL) & O_NONBLOCK, "O_NONBLOCK");
        check(has(places[i].fd, SOL_SOCKET, SO_ACCEPTCONN) == (places[i].type != SOCK_DGRAM), "listening");
    }
    check(has(places[0].fd, IPPROTO_TCP, TCP_NODELAY) && has(places[0].fd, SOL_SOCKET, SO_KEEPALIVE) &&
              has(receiver, SOL_SOCKET, SO_BROADCAST),
          "options");
    snprintf(path, sizeof path, "data-datagrams-%d", program.rank);
    check(stat(path, &st) == 0 && S_ISSOCK(st.st_mode) && (st.st_mode & 0777) == 0640, path);
}

static void check_others(void)
{
    struct ifreq interface = {.ifr_name = "lo"};
    send_aimed();
    check(ioctl(plain, SIOCGIFINDEX, &interface) == 0, "an interface");
    check(ask_kernel(), "the kernel's answer");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    program_begin(&program, "endpoints", argc, argv);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    open_places();
    open_others();
    for (step = 1; step <= program.steps; step++) {
        check_places();
        for (int i = 0; i < place_count; i++)
            send_to(&places[i], step * 10 + i);
        check_others();
        MPI_Barrier(MPI_COMM_WORLD);
        program_step(&program, step);
    }
    program_end(&program);
    MPI_Finalize();
    return 0;
}
