#include "node-agent/member/outgoing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/image/image.h"
#include "common/image/sums.h"
#include "common/util/clock.h"
#include "common/util/log.h"
#include "node-agent/delta/encode.h"
#include "node-agent/loop/pool.h"
#include "node-agent/store/apply.h"

#define TAG_BYTES_MAX REMOTE_TAG_BYTES

struct outgoing {
    struct outgoing_request request;
    uint8_t tag[TAG_BYTES_MAX];
    bool is_cancelled;      /* atomic */
    struct pool_work *work; /* makes the whole image, or the lines */
    struct apply apply;
    int apply_rc;
    struct belay_error err;
    int fd, base;            /* what goes, and the image of a delta; ours. base -1: none */
    struct encoded *encoded; /* what goes are the lines; NULL: it is fd as it is */
    struct outgoing_figures figures;
    uint64_t offered_ns;

    /* the filler's: */
    struct packer *packer;  /* NULL: it goes as it is read */
    struct image_view view; /* of it; header NULL: not read yet */
    uint64_t range;         /* number of the one that goes */
    uint64_t sent;          /* of it, with what is in front */
    uint64_t total;         /* of all */
};

static int offer(struct outgoing *outgoing);
static int make_whole(struct outgoing *outgoing, struct belay_error *err);
static int make_delta(struct outgoing *outgoing, struct belay_error *err);
static void apply_part(void *context, uint32_t part);
static void after_apply(void *context, bool is_cancelled);
static void encode_part(void *context, uint32_t part);
static void after_encode(void *context, bool is_cancelled);
static ssize_t fill(void *context, uint8_t *to, size_t room);
static ssize_t fill_packed(void *context, uint8_t *to, size_t room);
static bool find_range(const struct outgoing *outgoing, struct part_range *range);
static ssize_t put_range(struct outgoing *outgoing, const struct part_range *range, uint8_t *to, size_t room);
static bool find_encoded_range(const struct outgoing *outgoing, struct part_range *range);
static ssize_t read_range(struct outgoing *outgoing, const struct part_range *range, uint64_t at, uint8_t *to,
                          size_t count);
static void on_pushed(void *context, int error);
static void destroy(struct outgoing *outgoing);

static const struct pool_ops apply_ops = {.run = apply_part, .done = after_apply};
static const struct pool_ops encode_ops = {.run = encode_part, .done = after_encode};

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
    outgoing->base = request->form == OUTGOING_AS_IT_IS ? -1 : fcntl(request->base, F_DUPFD_CLOEXEC, 3);
    if (outgoing->fd < 0 || (outgoing->base < 0 && request->form != OUTGOING_AS_IT_IS) ||
        request->tag_bytes > sizeof outgoing->tag) {
        belay_error_errno(err, "no descriptor for a copy on another node");
        destroy(outgoing);
        return NULL;
    }
    memcpy(outgoing->tag, request->tag, request->tag_bytes);
    int rc = 0;
    if (request->form == OUTGOING_WHOLE)
        rc = make_whole(outgoing, err);
    else if (request->form == OUTGOING_DELTA)
        rc = make_delta(outgoing, err);
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
    outgoing->offered_ns = clock_now_ns();
    if (outgoing->encoded)
        header = *encoded_header(outgoing->encoded);
    else if (pread(outgoing->fd, &header, sizeof header, 0) != (ssize_t)sizeof header) {
        errno = EIO;
        return -1;
    }
    uint64_t bytes = IMAGE_PAGE_BYTES + header.tables_bytes + (request->is_tables ? 0 : header.data_bytes) +
                     SUMS_OF_BYTES(header.data_bytes) +
                     (2 * header.run_count + 2) * sizeof(struct part_range);
    bool is_packed = request->packing != PACKING_NONE;
    if (is_packed && !(outgoing->packer = packer_create(request->packing, fill, outgoing)))
        return -1;
    return remotes_push(request->remotes, request->subject, request->node, outgoing->tag, request->tag_bytes,
                        is_packed ? packer_bound(bytes) : bytes, is_packed ? fill_packed : fill, on_pushed,
                        outgoing);
}

static int make_whole(struct outgoing *outgoing, struct belay_error *err)
{
    const struct outgoing_request *request = &outgoing->request;
    outgoing->apply.image = outgoing->base;
    outgoing->apply.delta = outgoing->fd;
    outgoing->apply.is_pinned = true;
    outgoing->apply.is_tables = request->is_tables;
    outgoing->apply.rank = (int)request->rank;
    outgoing->apply.base_line = request->base_line;
    outgoing->apply.line = request->line;
    outgoing->work = pool_start(request->loop, 1, &apply_ops, outgoing);
    return outgoing->work ? 0 : belay_error_errno(err, "a copy for another node cannot be made");
}

static int make_delta(struct outgoing *outgoing, struct belay_error *err)
{
    outgoing->work = pool_start(outgoing->request.loop, 1, &encode_ops, outgoing);
    return outgoing->work ? 0 : belay_error_errno(err, "a copy for another node cannot be made");
}

/* Without the memory for it, or if lines take more, the delta goes as it is. */
static void encode_part(void *context, uint32_t part)
{
    struct outgoing *outgoing = context;
    struct outgoing_figures *figures = &outgoing->figures;
    const struct outgoing_request *request = &outgoing->request;
    struct belay_error err = {0};
    (void)part;
    uint64_t begin_ns = clock_now_ns();
    int rc = choice_make(&request->rates, request->granularity, outgoing->fd, outgoing->base,
                         &figures->choice, &err);
    if (rc == 0 && figures->choice.granularity == GRANULARITY_LINE) {
        outgoing->encoded = encode_delta(outgoing->fd, outgoing->base, &err);
        rc = outgoing->encoded ? 0 : -1;
    }
    if (outgoing->encoded) {
        const struct encoded_figures *found = encoded_figures(outgoing->encoded);
        figures->compared_bytes = found->pages * IMAGE_PAGE_BYTES;
        figures->page_bytes = found->page_bytes;
        figures->is_lines = found->bytes < found->page_bytes;
    }
    if (!figures->is_lines) {
        encoded_destroy(outgoing->encoded);
        outgoing->encoded = NULL;
    }
    figures->compare_ns = clock_now_ns() - begin_ns;
    if (rc < 0 && !__atomic_load_n(&outgoing->is_cancelled, __ATOMIC_SEQ_CST))
        log_warning("rank %u of line %llu is sent in whole pages: %s", request->rank,
                    (unsigned long long)request->line, err.text);
}

static void after_encode(void *context, bool is_cancelled)
{
    struct outgoing *outgoing = context;
    (void)is_cancelled; /* never */
    outgoing->work = NULL;
    if (outgoing->is_cancelled)
        on_pushed(outgoing, ECANCELED);
    else if (offer(outgoing) < 0)
        on_pushed(outgoing, errno);
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
    if (!outgoing->encoded && !outgoing->view.header && image_load(outgoing->fd, &outgoing->view, &err) < 0) {
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

static ssize_t fill_packed(void *context, uint8_t *to, size_t room)
{
    struct outgoing *outgoing = context;
    return packer_fill(outgoing->packer, to, room);
}

/* The header, the tables, the pages, and of a whole image their sums. False: that was all. */
static bool find_range(const struct outgoing *outgoing, struct part_range *range)
{
    if (outgoing->encoded)
        return find_encoded_range(outgoing, range);
    const struct image_header *header = outgoing->view.header;
    uint64_t number = outgoing->range, sums = header->base_line ? 0 : header->run_count;
    if (number >= 2 && outgoing->request.is_tables)
        number += header->run_count;
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

/* The header, the tables, and all data. */
static bool find_encoded_range(const struct outgoing *outgoing, struct part_range *range)
{
    const struct image_header *header = encoded_header(outgoing->encoded);
    if (outgoing->range == 0)
        *range = (struct part_range){0, sizeof *header};
    else if (outgoing->range == 1)
        *range = (struct part_range){header->tables_offset, header->tables_bytes};
    else
        *range = (struct part_range){IMAGE_PAGE_BYTES, header->data_bytes};
    return outgoing->range < (header->data_bytes > 0 ? 3 : 2);
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
        ssize_t got = count ? read_range(outgoing, range, at, to, count) : 0;
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

static ssize_t read_range(struct outgoing *outgoing, const struct part_range *range, uint64_t at, uint8_t *to,
                          size_t count)
{
    const char *memory = NULL;
    if (!outgoing->encoded)
        return pread(outgoing->fd, to, count, (off_t)(range->offset + at));
    if (outgoing->range > 1)
        return encoded_read(outgoing->encoded, to, count);
    memory = outgoing->range == 0 ? (const char *)encoded_header(outgoing->encoded)
                                  : encoded_tables(outgoing->encoded);
    memcpy(to, memory + at, count);
    return (ssize_t)count;
}

static void on_pushed(void *context, int error)
{
    struct outgoing *outgoing = context;
    const struct outgoing_request request = outgoing->request;
    bool is_cancelled = outgoing->is_cancelled;
    struct outgoing_figures figures = outgoing->figures;
    figures.sent_bytes = outgoing->total; /* the filler is done */
    figures.send_ns = outgoing->offered_ns ? clock_now_ns() - outgoing->offered_ns : 0;
    if (!figures.is_lines)
        figures.page_bytes = figures.sent_bytes;
    if (outgoing->packer) {
        figures.packed = packer_figures(outgoing->packer);
        figures.sent_bytes = figures.packed.packed_bytes;
    }
    destroy(outgoing);
    if (!is_cancelled)
        request.done(request.context, error, &figures);
}

static void destroy(struct outgoing *outgoing)
{
    image_unload(&outgoing->view);
    encoded_destroy(outgoing->encoded);
    packer_destroy(outgoing->packer);
    if (outgoing->fd >= 0)
        close(outgoing->fd);
    if (outgoing->base >= 0)
        close(outgoing->base);
    if (outgoing->apply.made >= 0)
        close(outgoing->apply.made);
    free(outgoing);
}
