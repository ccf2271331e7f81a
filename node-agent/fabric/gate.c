#include "node-agent/fabric/gate.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define SOURCE_AT (SKF_NET_OFF + 12) /* of the header of IPv4, RFC 791 */

static bool is_ipv4(const struct fabric_address *address, struct sockaddr_in *found)
{
    if (address->count != sizeof *found)
        return false;
    memcpy(found, address->bytes, sizeof *found);
    return found->sin_family == AF_INET;
}

/* Compare the source with one address after the other. Returns the instructions, 0: some are not of IPv4. */
static unsigned short make_filter(const struct fabric_address *hosts, size_t count,
                                  struct sock_filter *filter)
{
    unsigned short used = 0;
    struct sockaddr_in host;
    filter[used++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)SOURCE_AT);
    for (size_t i = 0; i < count; i++) {
        if (!is_ipv4(&hosts[i], &host))
            return 0;
        filter[used++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(host.sin_addr.s_addr), 0, 1);
        filter[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, UINT32_MAX);
    }
    filter[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
    return used;
}

static bool listens_at(int fd, const struct sockaddr_in *own)
{
    struct sockaddr_in here = {0};
    socklen_t here_bytes = sizeof here, flag_bytes = sizeof(int);
    int listens = 0;
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &flag_bytes) == 0 && listens &&
           getsockname(fd, (struct sockaddr *)&here, &here_bytes) == 0 && here.sin_family == AF_INET &&
           here.sin_port == own->sin_port && here.sin_addr.s_addr == own->sin_addr.s_addr;
}

/* program NULL: without one. */
static int attach(int fd, const struct sock_fprog *program)
{
    int unused = 0;
    if (program)
        return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, program, sizeof *program);
    int rc = setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof unused);
    return rc < 0 && errno == ENOENT ? 0 : rc;
}

/* libfabric does not tell which descriptor is its own. */
static int attach_to_all(const struct sockaddr_in *own, const struct sock_fprog *program)
{
    DIR *folder = opendir("/proc/self/fd");
    int found = folder ? 0 : -1;
    for (const struct dirent *entry; folder && found >= 0 && (entry = readdir(folder));) {
        int fd = atoi(entry->d_name); /* 0 for "." and ".."; no socket of ours is that */
        if (fd > 0 && listens_at(fd, own))
            found = attach(fd, program) == 0 ? found + 1 : -1;
    }
    int code = errno;
    if (folder)
        closedir(folder);
    errno = code;
    return found;
}

int gate_set(const struct fabric_address *own, const struct fabric_address *hosts, size_t count,
             struct belay_error *err)
{
    struct sock_filter filter[2 + 2 * GATE_HOSTS_MAX];
    struct sockaddr_in here;
    if (!is_ipv4(own, &here))
        return 0;
    struct sock_fprog program = {.filter = filter};
    program.len = count > 0 && count <= GATE_HOSTS_MAX ? make_filter(hosts, count, filter) : 0;
    int found = attach_to_all(&here, program.len > 0 ? &program : NULL);
    return found >= 0 ? found : belay_error_errno(err, "strangers cannot be kept from connecting");
}
