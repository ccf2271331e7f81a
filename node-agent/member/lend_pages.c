#include "node-agent/member/lend_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/fault/fault.h"
#include "common/image/image.h"
#include "node-agent/member/packed.h"

#define RANGE_MAX (16ull << 20) /* of a range */
#define PUSHES_MAX 64u          /* at a time */

struct lent {
    struct remotes *remotes;
    uint32_t references; /* the owner's, and one of each push */
    int fd;
    struct image_view view;
    struct packed packed;
};

/* A range on its way. */
struct push {
    struct lent *lent;
    uint32_t part;
    uint64_t line, at, end;
};

struct lent *lent_create(struct remotes *remotes, int fd, struct belay_error *err)
{
    struct lent *lent = calloc(1, sizeof *lent);
    if (!lent) {
        belay_error_set(err, ENOMEM, "no memory to lend an image");
        return NULL;
    }
    *lent = (struct lent){.remotes = remotes, .references = 1, .fd = fcntl(fd, F_DUPFD_CLOEXEC, 3)};
    int rc = lent->fd < 0 ? belay_error_errno(err, "no descriptor to lend an image")
                          : image_load(lent->fd, &lent->view, err);
    if (rc == 0 && packed_begin(&lent->packed, &lent->view) < 0)
        rc = belay_error_set(err, ENOMEM, "no memory to lend an image");
    if (rc == 0)
        return lent;
    lent_destroy(lent);
    return NULL;
}

void lent_destroy(struct lent *lent)
{
    if (!lent || --lent->references > 0)
        return;
    image_unload(&lent->view);
    packed_release(&lent->packed);
    if (lent->fd >= 0)
        close(lent->fd);
    free(lent);
}

/* In a thread of the fabric's. */
static ssize_t fill(void *context, uint8_t *to, size_t room)
{
    struct push *push = context;
    struct packed_piece piece;
    size_t put = 0;
    fault_hit("agent.load.fill", (int)push->part, push->line);
    while (put < room && packed_piece(&push->lent->packed, push->at, push->end, &piece)) {
        size_t count = piece.bytes < room - put ? piece.bytes : room - put;
        ssize_t got = pread(push->lent->fd, to + put, count, (off_t)image_offset(piece.address));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            errno = got < 0 ? errno : EIO;
            return -1;
        }
        push->at += (uint64_t)got;
        put += (size_t)got;
    }
    return (ssize_t)put;
}

/* The member that loads it hears by itself of what has failed. */
static void on_pushed(void *context, int error)
{
    struct push *push = context;
    (void)error;
    lent_destroy(push->lent);
    free(push);
}

uint64_t lent_bytes(const struct lent *lent)
{
    return packed_bytes(&lent->packed);
}

int lent_send(struct lent *lent, uint32_t node, const struct fetch_note *tag)
{
    uint64_t all = packed_bytes(&lent->packed);
    if (tag->bytes == 0 || tag->bytes > RANGE_MAX || tag->offset > all || tag->bytes > all - tag->offset)
        return EINVAL;
    struct push *push = lent->references <= PUSHES_MAX ? calloc(1, sizeof *push) : NULL;
    if (!push)
        return ENOMEM;
    fault_hit("agent.load.send", (int)tag->part, tag->line);
    *push = (struct push){.lent = lent,
                          .part = tag->part,
                          .line = tag->line,
                          .at = tag->offset,
                          .end = tag->offset + tag->bytes};
    lent->references++;
    if (remotes_push(lent->remotes, REMOTES_IMAGES, node, tag, sizeof *tag, tag->bytes, fill, on_pushed,
                     push) == 0)
        return 0;
    int code = errno;
    on_pushed(push, code);
    return code;
}
