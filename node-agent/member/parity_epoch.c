#include "node-agent/member/parity_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node-agent/job/membership.h"

static void on_word(void *context, uint32_t node, const uint8_t *bytes, size_t count);
static void on_lost(void *context, uint32_t node);

static const struct remotes_ops remotes_ops = {.word = on_word, .offered = parity_offered, .lost = on_lost};

struct parity *parity_of_epoch(const struct mirror_epoch *epoch, const struct parity_ops *ops, void *context)
{
    struct parity *parity = calloc(1, sizeof *parity);
    if (!parity)
        return NULL;
    parity->epoch = *epoch;
    if (set_init(&parity->set, epoch) < 0) {
        free(parity);
        return NULL;
    }
    packing_parse(epoch->job->config->settings->compress, &parity->packing);
    parity->ops = ops;
    parity->context = context;
    remotes_hear(epoch->remotes, REMOTES_PARITY, &remotes_ops, parity);
    return parity;
}

void parity_destroy(struct parity *parity)
{
    if (!parity)
        return;
    parity_cancel(parity);
    parity_leave_takings(parity);
    remotes_hear(parity->epoch.remotes, REMOTES_PARITY, NULL, NULL);
    set_release(&parity->set);
    free(parity);
}

void parity_cancel(struct parity *parity)
{
    parity_drop_guards(parity);
    parity_drop_gatherings(parity);
}

void parity_fail(struct parity *parity, uint64_t line, uint32_t rank, uint32_t node, const char *why)
{
    char text[BELAY_ERROR_TEXT_BYTES + 96];
    snprintf(text, sizeof text, "rank %" PRIu32 " cannot be protected by parity on node %" PRIu32 ": %s",
             rank, node, why);
    parity->ops->failed(parity->context, line, text, false);
}

const char *parity_tell_error(int error)
{
    return error == ECONNRESET ? "the link to it is lost"
           : error == EBADMSG  ? "it was damaged on its way"
                               : strerror(error);
}

bool parity_read_note(const struct parity *parity, const void *bytes, size_t count, struct parity_note *note)
{
    if (count != sizeof *note)
        return false;
    memcpy(note, bytes, sizeof *note);
    return note->magic == PARITY_NOTE_MAGIC && note->epoch == parity->epoch.number &&
           note->ranks == parity->epoch.world && note->slot < note->ranks;
}

/* A holder's word about a rank of ours. */
static void on_word(void *context, uint32_t node, const uint8_t *bytes, size_t count)
{
    struct parity *parity = context;
    struct parity_note note;
    uint32_t position = set_position(&parity->set, node);
    if (parity_read_note(parity, bytes, count, &note) && position != EPOCH_NOBODY &&
        note.line == membership_line(parity->epoch.job->membership))
        parity_hear_holder(parity, position, &note);
}

/* What was sent may not have arrived, and no word of it will come. */
static void on_lost(void *context, uint32_t node)
{
    struct parity *parity = context;
    uint64_t line = membership_line(parity->epoch.job->membership);
    char text[64];
    if (line == 0 || set_position(&parity->set, node) == EPOCH_NOBODY)
        return;
    snprintf(text, sizeof text, "the link to node %" PRIu32 " is lost", node);
    parity->ops->failed(parity->context, line, text, false);
}
