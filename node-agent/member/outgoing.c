#include "node-agent/member/outgoing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/image/image.h"
#include "common/image/sums.h"
#include "node-agent/loop/pool.h"
#include "node-agent/store/apply.h"

#define TAG_BYTES_MAX REMOTE_TAG_BYTES

struct outgoing {
    struct outgoing_request request;
    uint8_t tag[TAG_BYTES_MAX];
    bool is_cancelled;      /* atomic */
    struct pool_work *work; /* makes the whole image */
    struct apply apply;
    int apply_rc;
    struct belay_error err;
    int fd; /* what goes; ours */

    /* the filler's: */
    struct image_view view; /* of it; header NULL: not read yet */
    uint64_t range;         /* number of the one that goes */
    uint64_t sent;          /* of it, with what is in front */
    uint64_t total;         /* of all */
};

static int offer(struct outgoing *outgoing);
static int make_whole(struct outgoing *outgoing, struct belay_error *err);
static void apply_part(void *context, uint32_t part);
static void after_apply(void *context, bool is_cancelled);
static ssize_t fill(void *context, uint8_t *to, size_t room);
static bool find_range(const struct outgoing *outgoing, struct part_range *range);
static ssize_t put_range(struct outgoing *outgoing, const struct part_range *range, uint8_t *to, size_t room);
static void on_pushed(void *context, int error);
static void destroy(struct outgoing *outgoing);

static const struct pool_ops apply_ops = {.run = apply_part, .done = after_apply};

struct outgoing *outgoing_start(const struct outgoing_request *request, struct belay_error *err)
{
    struct outgoing *outgoing = calloc(1, sizeof *outgoing);
    if (!outgoing) {
        belay_error_set(err, ENOMEM, "no memory for a copy on another node");
        return NULL;
    }
    outgoing->request = *request;
    outgoing->apply = (struct apply){.image = -1, .delta = -1, .copy = -1, .made = -1};
    outgoing->fd = fcntl(request->part, F_DUPFD_CLOEXEC, 3);
    if (outgoing->fd < 0 || request->tag_bytes > sizeof outgoing->tag) {
        belay_error_errno(err, "no descriptor for a copy on another node");
        destroy(outgoing);
        return NULL;
    }
    memcpy(outgoing->tag, request->tag, request->tag_bytes);
    int rc = 0;
    if (request->base >= 0)
        rc = make_whole(outgoing, err);
    else if ((rc = offer(outgoing)) < 0)
        belay_error_errno(err, "node %u cannot be reached", request->node);
    if (rc == 0)
        return outgoing;
    destroy(outgoing);
    return NULL;
}

void outgoing_cancel(struct outgoing *outgoing)
{
    __atomic_store_n(&outgoing->is_cancelled, true, __ATOMIC_SEQ_CST);
}

/* As much as it can be at most: what is in front of each range is counted, too. */
static int offer(struct outgoing *outgoing)
{
    const struct outgoing_request *request = &outgoing->request;
    struct image_header header;
    if (pread(outgoing->fd, &header, sizeof header, 0) != (ssize_t)sizeof header) {
        errno = EIO;
        return -1;
    }
    uint64_t bytes = IMAGE_PAGE_BYTES + header.tables_bytes + header.data_bytes +
                     SUMS_OF_BYTES(header.data_bytes) +
                     (2 * header.run_count + 2) * sizeof(struct part_range);
    return remotes_push(request->remotes, request->subject, request->node, outgoing->tag, request->tag_bytes,
                        bytes, fill, on_pushed, outgoing);
}

static int make_whole(struct outgoing *outgoing, struct belay_error *err)
{
    const struct outgoing_request *request = &outgoing->request;
    outgoing->apply.image = fcntl(request->base, F_DUPFD_CLOEXEC, 3);
    outgoing->apply.delta = outgoing->fd;
    outgoing->apply.is_pinned = true;
    outgoing->apply.rank = (int)request->rank;
    outgoing->apply.base_line = request->base_line;
    outgoing->apply.line = request->line;
    outgoing->work = outgoing->apply.image < 0 ? NULL : pool_start(request->loop, 1, &apply_ops, outgoing);
    return outgoing->work ? 0 : belay_error_errno(err, "a copy for another node cannot be made");
}

static void apply_part(void *context, uint32_t part)
{
    struct outgoing *outgoing = context;
    (void)part;
    outgoing->apply_rc = apply_delta(&outgoing->apply, &outgoing->err);
}

static void after_apply(void *context, bool is_cancelled)
{
    struct outgoing *outgoing = context;
    (void)is_cancelled; /* never */
    outgoing->work = NULL;
    if (outgoing->apply_rc < 0 || outgoing->is_cancelled) {
        on_pushed(outgoing, outgoing->apply_rc < 0 && outgoing->err.code ? outgoing->err.code : EIO);
        return;
    }
    close(outgoing->fd);
    outgoing->fd = outgoing->apply.made;
    outgoing->apply.made = -1;
    if (offer(outgoing) < 0)
        on_pushed(outgoing, errno);
}

/* The memory of a part may be used for the next line once this one is over: what was read then does not
 * count.
 */
static ssize_t fill(void *context, uint8_t *to, size_t room)
{
    struct outgoing *outgoing = context;
    struct part_range range;
    size_t put = 0;
    struct belay_error err;
    if (!outgoing->view.header && image_load(outgoing->fd, &outgoing->view, &err) < 0) {
        errno = err.code;
        return -1;
    }
    while (put < room && find_range(outgoing, &range)) {
        ssize_t count = put_range(outgoing, &range, to + put, room - put);
        if (count < 0)
            return -1;
        put += (size_t)count;
    }
    outgoing->total += put;
    if (!__atomic_load_n(&outgoing->is_cancelled, __ATOMIC_SEQ_CST))
        return (ssize_t)put;
    errno = ECANCELED;
    return -1;
}

/* The header, the tables, the pages, and of a whole image their sums. False: that was all. */
static bool find_range(const struct outgoing *outgoing, struct part_range *range)
{
    const struct image_header *header = outgoing->view.header;
    uint64_t number = outgoing->range, sums = header->base_line ? 0 : header->run_count;
    if (number >= 2 + header->run_count + sums)
        return false;
    if (number == 0) {
        *range = (struct part_range){0, sizeof *header};
    } else if (number == 1) {
        *range = (struct part_range){header->tables_offset, header->tables_bytes};
    } else if (number < 2 + header->run_count) {
        const struct image_run *run = &outgoing->view.runs[number - 2];
        *range = (struct part_range){run->data_offset, run->bytes};
    } else {
        const struct image_run *run = &outgoing->view.runs[number - 2 - header->run_count];
        *range = (struct part_range){sums_offset(run->address), SUMS_OF_BYTES(run->bytes)};
    }
    return true;
}

/* The next bytes of it. */
static ssize_t put_range(struct outgoing *outgoing, const struct part_range *range, uint8_t *to, size_t room)
{
    size_t count;
    if (outgoing->sent < sizeof *range) {
        uint64_t left = sizeof *range - outgoing->sent;
        count = left < room ? left : room;
        memcpy(to, (const uint8_t *)range + outgoing->sent, count);
    } else {
        uint64_t at = outgoing->sent - sizeof *range, left = range->bytes - at;
        count = left < room ? left : room;
        ssize_t got = count ? pread(outgoing->fd, to, count, (off_t)(range->offset + at)) : 0;
        if (got < 0 || (got == 0 && count > 0)) {
            errno = got < 0 ? errno : EIO;
            return -1;
        }
        count = (size_t)got;
    }
    outgoing->sent += count;
    if (outgoing->sent == sizeof *range + range->bytes) {
        outgoing->range++;
        outgoing->sent = 0;
    }
    return (ssize_t)count;
}

static void on_pushed(void *context, int error)
{
    struct outgoing *outgoing = context;
    const struct outgoing_request request = outgoing->request;
    bool is_cancelled = outgoing->is_cancelled;
    uint64_t total = outgoing->total; /* the filler is done */
    destroy(outgoing);
    if (!is_cancelled)
        request.done(request.context, error, total);
}

static void destroy(struct outgoing *outgoing)
{
    image_unload(&outgoing->view);
    if (outgoing->fd >= 0)
        close(outgoing->fd);
    if (outgoing->apply.image >= 0)
        close(outgoing->apply.image);
    if (outgoing->apply.made >= 0)
        close(outgoing->apply.made);
    free(outgoing);
}
