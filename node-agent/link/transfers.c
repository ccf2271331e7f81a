#include "node-agent/link/transfers.h"

#include <errno.h>
#include <stdlib.h>

struct transfer {
    struct transfer *next;
    const struct fabric_peer *peer;
    fabric_fill_f *fill; /* of a push */
    struct transfer_intake intake;
    bool is_lost; /* the fabric says nothing more of it */
};

static struct transfer *add(struct transfers *transfers, const struct fabric_peer *peer, fabric_fill_f *fill,
                            const struct transfer_intake *intake);
static void take_out(struct transfers *transfers, const struct transfer *transfer);
static ssize_t fill_slab(void *context, uint8_t *to, size_t room);
static int take_chunk(void *context, uint64_t offset, const uint8_t *bytes, size_t count);

int transfers_push(struct transfers *transfers, struct fabric_peer *peer, const void *tag, size_t tag_bytes,
                   uint64_t bytes, fabric_fill_f *fill, transfer_done_f *done, void *context)
{
    const struct transfer_intake intake = {.done = done, .context = context};
    struct transfer *transfer = add(transfers, peer, fill, &intake);
    if (!transfer)
        return -1;
    if (fabric_push(peer, tag, tag_bytes, bytes, fill_slab, transfer))
        return 0;
    int code = errno;
    take_out(transfers, transfer);
    free(transfer);
    errno = code;
    return -1;
}

int transfers_admit(struct transfers *transfers, struct fabric_peer *peer, struct fabric_pull *pull,
                    const struct transfer_intake *intake)
{
    struct transfer *transfer = add(transfers, peer, NULL, intake);
    if (!transfer)
        return -1;
    fabric_admit(pull, take_chunk, transfer);
    return 0;
}

void transfers_end(struct transfers *transfers, struct transfer *transfer, int error)
{
    if (!transfer)
        return;
    const struct transfer_intake intake = transfer->intake;
    take_out(transfers, transfer);
    free(transfer);
    intake.done(intake.context, error);
}

void transfers_lose(struct transfers *transfers, const struct fabric_peer *peer)
{
    for (struct transfer *transfer = transfers->first; transfer; transfer = transfer->next)
        transfer->is_lost |= !peer || transfer->peer == peer;
}

/* A callback may begin or lose others: so it is looked from the first again. */
void transfers_tell(struct transfers *transfers)
{
    struct transfer *transfer = transfers->first;
    while (transfer) {
        if (!transfer->is_lost) {
            transfer = transfer->next;
            continue;
        }
        transfers_end(transfers, transfer, ECONNRESET);
        transfer = transfers->first;
    }
}

/* NULL with ENOMEM. */
static struct transfer *add(struct transfers *transfers, const struct fabric_peer *peer, fabric_fill_f *fill,
                            const struct transfer_intake *intake)
{
    struct transfer *transfer = calloc(1, sizeof *transfer);
    if (!transfer)
        return NULL;
    *transfer = (struct transfer){.next = transfers->first, .peer = peer, .fill = fill, .intake = *intake};
    transfers->first = transfer;
    return transfer;
}

static void take_out(struct transfers *transfers, const struct transfer *transfer)
{
    struct transfer **at = &transfers->first;
    while (*at != transfer)
        at = &(*at)->next;
    *at = transfer->next;
}

static ssize_t fill_slab(void *context, uint8_t *to, size_t room)
{
    const struct transfer *transfer = context;
    return transfer->fill(transfer->intake.context, to, room);
}

static int take_chunk(void *context, uint64_t offset, const uint8_t *bytes, size_t count)
{
    const struct transfer *transfer = context;
    return transfer->intake.take(transfer->intake.context, offset, bytes, count);
}
