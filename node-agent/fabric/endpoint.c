#include "node-agent/fabric/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define API_VERSION FI_VERSION(1, 11)
#define RECEIVES 128u /* posted */
#define SENDS 256u    /* on their way */
#define EVENTS_A_READ 16u
/* Where the provider has nothing to wait for: how often it is looked at, at once for some time after events.
 */
#define LOOK_EVERY_MS 2
#define LOOKS_AT_ONCE 200u

/* One operation of the provider's; `internal` is its own while it is under way. */
struct operation {
    struct fi_context2 internal;
    enum endpoint_kind kind;
    uint64_t cookie;
    uint8_t *frame;         /* of RECEIVED and SENT: ENDPOINT_FRAME_BYTES */
    struct operation *next; /* free or, of a receive, to be posted again */
    struct operation *all;  /* writes */
};

struct endpoint {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *addresses;
    struct fid_cq *queue;
    struct fid_ep *ep;
    int wait_fd;                           /* -1: the provider has none */
    unsigned looks;                        /* then: since the last event */
    uint8_t *frames;                       /* of all operations */
    struct endpoint_memory *frames_memory; /* NULL where frames need no registration */
    struct operation operations[RECEIVES + SENDS];
    struct operation *free_sends, *free_writes, *unposted;
    struct operation *writes; /* all of them, by `all`: as many as were ever under way at a time */
};

struct endpoint_memory {
    struct fid_mr *mr;
    uint64_t address; /* that peers name */
};

static int open_all(struct endpoint *endpoint, const char *provider, const char *interface,
                    struct belay_error *err);
static int find_provider(struct endpoint *endpoint, const char *provider, const char *interface,
                         struct belay_error *err);
static bool has_network_address(const struct fi_info *info);
static bool is_loopback(const char *interface);
static int open_queue(struct endpoint *endpoint);
static int make_operations(struct endpoint *endpoint, struct belay_error *err);
static void post_receives(struct endpoint *endpoint);
static struct operation *get_write(struct endpoint *endpoint);
static int check(int rc, const char *what, struct belay_error *err);
static int errno_of(ssize_t rc);
static void *description(const struct endpoint_memory *memory);
static void finish(struct endpoint *endpoint, struct operation *operation, size_t count, int error,
                   struct endpoint_event *event);

struct endpoint *endpoint_open(const char *provider, const char *interface, struct belay_error *err)
{
    struct endpoint *endpoint = calloc(1, sizeof *endpoint);
    if (!endpoint) {
        belay_error_errno(err, "cannot open an endpoint");
        return NULL;
    }
    endpoint->wait_fd = -1;
    if (open_all(endpoint, provider, interface, err) < 0 || make_operations(endpoint, err) < 0) {
        int code = errno;
        endpoint_close(endpoint);
        errno = code;
        return NULL;
    }
    post_receives(endpoint);
    return endpoint;
}

void endpoint_close(struct endpoint *endpoint)
{
    if (!endpoint)
        return;
    if (endpoint->ep)
        fi_close(&endpoint->ep->fid);
    endpoint_unregister(endpoint->frames_memory);
    if (endpoint->queue)
        fi_close(&endpoint->queue->fid);
    if (endpoint->addresses)
        fi_close(&endpoint->addresses->fid);
    if (endpoint->domain)
        fi_close(&endpoint->domain->fid);
    if (endpoint->fabric)
        fi_close(&endpoint->fabric->fid);
    fi_freeinfo(endpoint->info);
    for (struct operation *write = endpoint->writes, *next; write; write = next) {
        next = write->all;
        free(write);
    }
    free(endpoint->frames);
    free(endpoint);
}

void endpoint_address(const struct endpoint *endpoint, struct fabric_address *address)
{
    address->count = sizeof address->bytes;
    if (fi_getname(&endpoint->ep->fid, address->bytes, &address->count) != 0)
        address->count = 0;
}

int endpoint_add_peer(struct endpoint *endpoint, const struct fabric_address *address, uint64_t *peer)
{
    fi_addr_t number = FI_ADDR_NOTAVAIL;
    if (fi_av_insert(endpoint->addresses, address->bytes, 1, &number, 0, NULL) != 1 ||
        number == FI_ADDR_NOTAVAIL) {
        errno = EINVAL;
        return -1;
    }
    *peer = number;
    return 0;
}

void endpoint_remove_peer(struct endpoint *endpoint, uint64_t peer)
{
    fi_addr_t number = peer;
    fi_av_remove(endpoint->addresses, &number, 1, 0);
}

int endpoint_send(struct endpoint *endpoint, uint64_t peer, const void *frame, size_t count, uint64_t cookie)
{
    struct operation *operation = endpoint->free_sends;
    if (!operation) {
        errno = EAGAIN;
        return -1;
    }
    memcpy(operation->frame, frame, count);
    operation->cookie = cookie;
    ssize_t rc = fi_send(endpoint->ep, operation->frame, count, description(endpoint->frames_memory), peer,
                         &operation->internal);
    if (rc < 0) {
        errno = errno_of(rc);
        return -1;
    }
    endpoint->free_sends = operation->next;
    return 0;
}

int endpoint_write(struct endpoint *endpoint, uint64_t peer, const struct endpoint_memory *memory,
                   const uint8_t *from, size_t count, uint64_t remote_address, uint64_t remote_key,
                   uint64_t cookie)
{
    struct operation *operation = get_write(endpoint);
    if (!operation)
        return -1;
    void *desc = description(memory);
    struct iovec local = {(void *)from, count};
    struct fi_rma_iov remote = {remote_address, count, remote_key};
    struct fi_msg_rma message = {.msg_iov = &local,
                                 .desc = &desc,
                                 .iov_count = 1,
                                 .addr = peer,
                                 .rma_iov = &remote,
                                 .rma_iov_count = 1,
                                 .context = &operation->internal};
    operation->cookie = cookie;
    ssize_t rc = fi_writemsg(endpoint->ep, &message, FI_DELIVERY_COMPLETE | FI_COMPLETION);
    if (rc < 0) {
        errno = errno_of(rc);
        return -1;
    }
    endpoint->free_writes = operation->next;
    return 0;
}

struct endpoint_memory *endpoint_register(struct endpoint *endpoint, uint8_t *bytes, size_t count,
                                          bool is_target, struct belay_error *err)
{
    int mode = endpoint->info->domain_attr->mr_mode;
    uint64_t access = is_target ? FI_REMOTE_WRITE : FI_SEND | FI_RECV | FI_WRITE, key = 0;
    struct endpoint_memory *memory = calloc(1, sizeof *memory);
    if (!memory) {
        belay_error_errno(err, "cannot register memory");
        return NULL;
    }
    randombytes_buf(&key, endpoint->info->domain_attr->mr_key_size < sizeof key
                              ? endpoint->info->domain_attr->mr_key_size
                              : sizeof key);
    int rc = fi_mr_reg(endpoint->domain, bytes, count, access, 0, key, 0, &memory->mr, NULL);
    if (rc == 0 && (mode & FI_MR_ENDPOINT)) {
        rc = fi_mr_bind(memory->mr, &endpoint->ep->fid, 0);
        rc = rc ? rc : fi_mr_enable(memory->mr);
    }
    if (check(rc, "cannot register memory", err) < 0) {
        endpoint_unregister(memory);
        return NULL;
    }
    memory->address = mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)bytes : 0;
    return memory;
}

void endpoint_unregister(struct endpoint_memory *memory)
{
    int code = errno;
    if (memory && memory->mr)
        fi_close(&memory->mr->fid);
    free(memory);
    errno = code;
}

void endpoint_memory_name(const struct endpoint_memory *memory, uint64_t *address, uint64_t *key)
{
    *address = memory->address;
    *key = fi_mr_key(memory->mr);
}

size_t endpoint_read(struct endpoint *endpoint, struct endpoint_event *events, size_t room)
{
    struct fi_cq_msg_entry done[EVENTS_A_READ];
    size_t count = 0;
    post_receives(endpoint);
    while (count < room) {
        size_t most = room - count < EVENTS_A_READ ? room - count : EVENTS_A_READ;
        ssize_t got = fi_cq_read(endpoint->queue, done, most);
        if (got == -FI_EAVAIL) {
            struct fi_cq_err_entry failed = {0};
            if (fi_cq_readerr(endpoint->queue, &failed, 0) != 1)
                break;
            if (failed.op_context)
                finish(endpoint, failed.op_context, 0, failed.err ? failed.err : EIO, &events[count++]);
            continue;
        }
        if (got <= 0)
            break;
        for (ssize_t i = 0; i < got; i++)
            finish(endpoint, done[i].op_context, done[i].len, 0, &events[count++]);
    }
    if (count > 0)
        endpoint->looks = 0;
    return count;
}

void endpoint_release(struct endpoint *endpoint, uint8_t *frame)
{
    size_t i = (size_t)(frame - endpoint->frames) / ENDPOINT_FRAME_BYTES;
    endpoint->operations[i].next = endpoint->unposted;
    endpoint->unposted = &endpoint->operations[i];
}

void endpoint_wait(struct endpoint *endpoint, int wake_fd, int timeout_ms)
{
    struct pollfd fds[2] = {{.fd = wake_fd, .events = POLLIN}, {.fd = endpoint->wait_fd, .events = POLLIN}};
    struct fid *queue = &endpoint->queue->fid;
    post_receives(endpoint);
    if (endpoint->wait_fd < 0)
        timeout_ms = endpoint->looks++ < LOOKS_AT_ONCE ? 0 : LOOK_EVERY_MS;
    else if (fi_trywait(endpoint->fabric, &queue, 1) != FI_SUCCESS)
        return;
    poll(fds, endpoint->wait_fd < 0 ? 1 : 2, timeout_ms);
}

static int open_all(struct endpoint *endpoint, const char *provider, const char *interface,
                    struct belay_error *err)
{
    struct fi_av_attr av = {.type = FI_AV_UNSPEC};
    if (find_provider(endpoint, provider, interface, err) < 0)
        return -1;
    if (check(fi_fabric(endpoint->info->fabric_attr, &endpoint->fabric, NULL), "fi_fabric", err) < 0 ||
        check(fi_domain(endpoint->fabric, endpoint->info, &endpoint->domain, NULL), "fi_domain", err) < 0 ||
        check(fi_av_open(endpoint->domain, &av, &endpoint->addresses, NULL), "fi_av_open", err) < 0 ||
        check(open_queue(endpoint), "fi_cq_open", err) < 0 ||
        check(fi_endpoint(endpoint->domain, endpoint->info, &endpoint->ep, NULL), "fi_endpoint", err) < 0 ||
        check(fi_ep_bind(endpoint->ep, &endpoint->addresses->fid, 0), "fi_ep_bind", err) < 0 ||
        check(fi_ep_bind(endpoint->ep, &endpoint->queue->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind", err) < 0)
        return -1;
    return check(fi_enable(endpoint->ep), interface ? interface : "fi_enable", err);
}

/* The first that fits; memory registration is as it turns out. */
static int find_provider(struct endpoint *endpoint, const char *provider, const char *interface,
                         struct belay_error *err)
{
    struct fi_info *hints = fi_allocinfo();
    if (!hints)
        return belay_error_set(err, ENOMEM, "no memory for libfabric");
    hints->caps = FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_WRITE | FI_REMOTE_WRITE;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->fabric_attr->prov_name = strdup(provider);
    int rc = fi_getinfo(API_VERSION, NULL, NULL, 0, hints, &endpoint->info);
    bool is_bound = rc == 0 && interface && has_network_address(endpoint->info);
    if (is_bound) {
        fi_freeinfo(endpoint->info);
        endpoint->info = NULL;
        rc = fi_getinfo(API_VERSION, interface, NULL, FI_SOURCE, hints, &endpoint->info);
    }
    fi_freeinfo(hints);
    if (rc != 0)
        return belay_error_set(err, errno_of(rc), "libfabric has no provider \"%s\"%s%s: %s", provider,
                               is_bound ? " at " : "", is_bound ? interface : "", fi_strerror(-rc));
    if (interface && !is_bound && !is_loopback(interface))
        return belay_error_set(err, EINVAL,
                               "libfabric's provider \"%s\" reaches processes of one machine only", provider);
    return 0;
}

/* One that is bound to one of the host's addresses; others name processes of this machine by words. */
static bool has_network_address(const struct fi_info *info)
{
    return info->addr_format != FI_ADDR_STR;
}

static bool is_loopback(const char *interface)
{
    struct in_addr address;
    return inet_pton(AF_INET, interface, &address) == 1 &&
           ntohl(address.s_addr) >> 24 == INADDR_LOOPBACK >> 24;
}

/* With a descriptor to wait for, if the provider has one. Room for all that may be under way. */
static int open_queue(struct endpoint *endpoint)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_FD, .size = 4096};
    int rc = fi_cq_open(endpoint->domain, &attr, &endpoint->queue, NULL);
    if (rc == 0)
        return fi_control(&endpoint->queue->fid, FI_GETWAIT, &endpoint->wait_fd);
    attr.wait_obj = FI_WAIT_NONE;
    return fi_cq_open(endpoint->domain, &attr, &endpoint->queue, NULL);
}

static int make_operations(struct endpoint *endpoint, struct belay_error *err)
{
    size_t room = (size_t)(RECEIVES + SENDS) * ENDPOINT_FRAME_BYTES;
    endpoint->frames = aligned_alloc(4096, room);
    if (!endpoint->frames)
        return belay_error_errno(err, "cannot open an endpoint");
    if (endpoint->info->domain_attr->mr_mode & FI_MR_LOCAL) {
        endpoint->frames_memory = endpoint_register(endpoint, endpoint->frames, room, false, err);
        if (!endpoint->frames_memory)
            return -1;
    }
    for (size_t i = 0; i < RECEIVES + SENDS; i++) {
        struct operation *operation = &endpoint->operations[i];
        struct operation **list = i < RECEIVES ? &endpoint->unposted : &endpoint->free_sends;
        operation->kind = i < RECEIVES ? ENDPOINT_RECEIVED : ENDPOINT_SENT;
        operation->frame = endpoint->frames + i * ENDPOINT_FRAME_BYTES;
        operation->next = *list;
        *list = operation;
    }
    return 0;
}

/* As many as the provider takes; the others later. */
static void post_receives(struct endpoint *endpoint)
{
    for (struct operation *operation; (operation = endpoint->unposted);) {
        if (fi_recv(endpoint->ep, operation->frame, ENDPOINT_FRAME_BYTES,
                    description(endpoint->frames_memory), FI_ADDR_UNSPEC, &operation->internal) != 0)
            return;
        endpoint->unposted = operation->next;
    }
}

/* The first free one; it stays in the list until it is used. NULL with ENOMEM. */
static struct operation *get_write(struct endpoint *endpoint)
{
    if (endpoint->free_writes)
        return endpoint->free_writes;
    struct operation *operation = calloc(1, sizeof *operation);
    if (!operation)
        return NULL;
    operation->kind = ENDPOINT_WRITTEN;
    operation->all = endpoint->writes;
    endpoint->writes = operation;
    endpoint->free_writes = operation;
    return operation;
}

static int check(int rc, const char *what, struct belay_error *err)
{
    return rc == 0 ? 0 : belay_error_set(err, errno_of(rc), "%s: %s", what, fi_strerror(-rc));
}

/* Codes of libfabric up to 255 are errno's, further ones its own. */
static int errno_of(ssize_t rc)
{
    return rc < 0 && rc > -256 ? (int)-rc : EIO;
}

static void *description(const struct endpoint_memory *memory)
{
    return memory ? fi_mr_desc(memory->mr) : NULL;
}

/* A received frame stays with the event's reader, the other operations are free again. */
static void finish(struct endpoint *endpoint, struct operation *operation, size_t count, int error,
                   struct endpoint_event *event)
{
    *event = (struct endpoint_event){.kind = operation->kind, .error = error, .cookie = operation->cookie};
    if (operation->kind == ENDPOINT_RECEIVED) {
        event->frame = operation->frame;
        event->count = count;
        return;
    }
    struct operation **list =
        operation->kind == ENDPOINT_SENT ? &endpoint->free_sends : &endpoint->free_writes;
    operation->next = *list;
    *list = operation;
}
