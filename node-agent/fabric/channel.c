#include "node-agent/fabric/channel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TELL_EVERY_FRAMES 16u
#define TELL_EVERY_BYTES (CHANNEL_WINDOW_BYTES / 4)
#define STUCK_BEATS 2u
#define GAP_BEATS (STUCK_BEATS + 1) /* one of them may be lost as well */

/* A frame from its making until the peer has it. */
struct outgoing {
    struct outgoing *next;
    struct frame frame;
    bool is_sealed; /* and never changed any more: the same counter, the same bytes */
    uint8_t bytes[];
};

struct channel {
    uint64_t session;
    struct seal *out, *in;
    /* Sending. */
    struct outgoing *first, *last; /* not confirmed */
    struct outgoing *next;         /* the first one that has not been sent */
    uint64_t last_counter, last_beat;
    uint64_t confirmed;     /* counter up to which the peer has all */
    uint64_t sent_weight;   /* of all frames up to the one before `next`, since the beginning */
    uint64_t peer_taken;    /* of these */
    size_t queued;          /* bytes that have not been sent for the first time */
    uint64_t highest_sent;  /* counter */
    unsigned beats_without; /* beats of the peer since something was confirmed, while something is missing */
    /* Receiving. */
    uint64_t received, peer_beat;
    uint64_t received_weight, taken_weight;
    uint64_t told_received, told_taken; /* in the newest frame */
    uint64_t gap;       /* the counter that lacked when a later one came; 0: none has lacked */
    unsigned gap_beats; /* that the peer is still to get for that, so that it is stuck */
    uint8_t *partial;   /* a message that is not whole */
    enum frame_kind partial_kind;
    size_t partial_total, partial_count, partial_weight;
};

static size_t weight_of(const struct frame *frame);
static struct outgoing *make_frame(enum frame_kind kind, const uint8_t *bytes, size_t count, size_t total);
static void fill_in(struct channel *channel, struct frame *frame, uint64_t counter);
static void confirm(struct channel *channel, const struct frame *frame);
static enum channel_verdict take_beat(struct channel *channel, const struct frame *frame);
static enum channel_verdict take_ordered(struct channel *channel, const struct frame *frame,
                                         const uint8_t *body, struct channel_item *item);
static void note_gap(struct channel *channel);
static int begin_item(struct channel *channel, const struct frame *frame);

struct channel *channel_create(enum fabric_mode mode, uint64_t session, const uint8_t out_key[SEAL_KEY_BYTES],
                               const uint8_t in_key[SEAL_KEY_BYTES])
{
    struct channel *channel = calloc(1, sizeof *channel);
    if (!channel)
        return NULL;
    channel->session = session;
    channel->out = seal_create(mode, out_key);
    channel->in = seal_create(mode, in_key);
    if (!channel->out || !channel->in) {
        channel_destroy(channel);
        return NULL;
    }
    return channel;
}

void channel_destroy(struct channel *channel)
{
    int code = errno;
    if (!channel)
        return;
    for (struct outgoing *frame = channel->first, *next; frame; frame = next) {
        next = frame->next;
        free(frame);
    }
    seal_destroy(channel->out);
    seal_destroy(channel->in);
    free(channel->partial);
    free(channel);
    errno = code;
}

int channel_put(struct channel *channel, enum frame_kind kind, const void *bytes, size_t count)
{
    struct outgoing *first = NULL, **end = &first, *last = NULL;
    size_t at = 0, weight = 0;
    if (kind == FRAME_MESSAGE && !channel_has_room(channel)) {
        errno = EAGAIN;
        return -1;
    }
    do {
        size_t part = count - at < FRAME_BODY_BYTES ? count - at : FRAME_BODY_BYTES;
        *end = last = make_frame(kind, (const uint8_t *)bytes + at, part, kind == FRAME_MESSAGE ? count : 0);
        if (!last)
            goto fail;
        weight += weight_of(&last->frame);
        end = &last->next;
        at += part;
    } while (at < count);
    if (channel->last)
        channel->last->next = first;
    else
        channel->first = first;
    channel->last = last;
    if (!channel->next)
        channel->next = first;
    channel->queued += weight;
    return 0;
fail:
    for (struct outgoing *next; first; first = next) {
        next = first->next;
        free(first);
    }
    errno = ENOMEM;
    return -1;
}

bool channel_has_room(const struct channel *channel)
{
    return channel->queued < CHANNEL_QUEUE_BYTES;
}

/* Sealed when sent for the first time, so that it says what has come by then. */
const uint8_t *channel_next(struct channel *channel, size_t *count)
{
    struct outgoing *next = channel->next;
    if (!next)
        return NULL;
    *count = FRAME_HEADER_BYTES + next->frame.count + SEAL_MAC_BYTES;
    if (next->is_sealed)
        return next->bytes;
    if (channel->sent_weight + weight_of(&next->frame) - channel->peer_taken > CHANNEL_WINDOW_BYTES)
        return NULL;
    fill_in(channel, &next->frame, ++channel->last_counter);
    frame_encode(&next->frame, next->bytes);
    seal_close(channel->out, SEAL_SPACE_ORDERED, next->frame.counter, next->bytes, FRAME_HEADER_BYTES,
               FRAME_HEADER_BYTES + next->frame.count, next->bytes + FRAME_HEADER_BYTES + next->frame.count);
    next->is_sealed = true;
    return next->bytes;
}

void channel_advance(struct channel *channel)
{
    struct outgoing *sent = channel->next;
    if (sent->frame.counter > channel->highest_sent) {
        channel->highest_sent = sent->frame.counter;
        channel->queued -= weight_of(&sent->frame);
        channel->sent_weight += weight_of(&sent->frame);
    }
    channel->next = sent->next;
}

size_t channel_rewind(struct channel *channel)
{
    size_t count = 0;
    for (struct outgoing *frame = channel->first; frame && frame != channel->next; frame = frame->next)
        count++;
    if (count > 0)
        channel->next = channel->first;
    channel->beats_without = 0;
    return count;
}

size_t channel_beat(struct channel *channel, uint8_t to[FRAME_HEADER_BYTES + SEAL_MAC_BYTES])
{
    struct frame beat = {.kind = FRAME_BEAT};
    fill_in(channel, &beat, ++channel->last_beat);
    channel->gap_beats -= channel->gap_beats > 0;
    frame_encode(&beat, to);
    seal_close(channel->out, SEAL_SPACE_BEAT, beat.counter, to, FRAME_HEADER_BYTES, FRAME_HEADER_BYTES,
               to + FRAME_HEADER_BYTES);
    return FRAME_HEADER_BYTES + SEAL_MAC_BYTES;
}

bool channel_owes_beat(const struct channel *channel)
{
    return channel->gap_beats > 0 || channel->received - channel->told_received >= TELL_EVERY_FRAMES ||
           channel->taken_weight - channel->told_taken >= TELL_EVERY_BYTES;
}

bool channel_is_stuck(const struct channel *channel)
{
    return channel->beats_without >= STUCK_BEATS;
}

enum channel_verdict channel_receive(struct channel *channel, uint8_t *bytes, size_t count,
                                     struct channel_item *item)
{
    struct frame frame;
    if (frame_decode(bytes, count, &frame) < 0 || frame.session != channel->session)
        return CHANNEL_REFUSED;
    enum seal_space space = frame.kind == FRAME_BEAT ? SEAL_SPACE_BEAT : SEAL_SPACE_ORDERED;
    if (seal_open(channel->in, space, frame.counter, bytes, FRAME_HEADER_BYTES,
                  FRAME_HEADER_BYTES + frame.count, bytes + FRAME_HEADER_BYTES + frame.count) < 0)
        return CHANNEL_REFUSED;
    if (frame.received > channel->highest_sent || frame.taken > channel->sent_weight)
        return CHANNEL_BROKEN; /* it confirms what was never sent */
    confirm(channel, &frame);
    if (frame.kind == FRAME_BEAT)
        return take_beat(channel, &frame);
    return take_ordered(channel, &frame, bytes + FRAME_HEADER_BYTES, item);
}

void channel_taken(struct channel *channel, size_t weight)
{
    channel->taken_weight += weight;
}

const struct seal *channel_seal_out(const struct channel *channel)
{
    return channel->out;
}

const struct seal *channel_seal_in(const struct channel *channel)
{
    return channel->in;
}

/* What a frame counts in the window: also an empty one takes memory. */
static size_t weight_of(const struct frame *frame)
{
    return FRAME_HEADER_BYTES + frame->count;
}

static struct outgoing *make_frame(enum frame_kind kind, const uint8_t *bytes, size_t count, size_t total)
{
    struct outgoing *frame = malloc(sizeof *frame + FRAME_HEADER_BYTES + count + SEAL_MAC_BYTES);
    if (!frame)
        return NULL;
    *frame = (struct outgoing){.frame = {.kind = kind, .total = (uint32_t)total, .count = (uint32_t)count}};
    if (count > 0)
        memcpy(frame->bytes + FRAME_HEADER_BYTES, bytes, count);
    return frame;
}

static void fill_in(struct channel *channel, struct frame *frame, uint64_t counter)
{
    frame->session = channel->session;
    frame->counter = counter;
    frame->received = channel->told_received = channel->received;
    frame->taken = channel->told_taken = channel->taken_weight;
}

/* Frames that have come at the peer are forgotten; numbers of a frame that is sent again may be old ones. */
static void confirm(struct channel *channel, const struct frame *frame)
{
    if (frame->taken > channel->peer_taken)
        channel->peer_taken = frame->taken;
    if (frame->received <= channel->confirmed)
        return;
    channel->confirmed = frame->received;
    channel->beats_without = 0;
    while (channel->first && channel->first->is_sealed && channel->first->frame.counter <= frame->received) {
        struct outgoing *done = channel->first;
        channel->first = done->next;
        if (channel->next == done) /* it was to be sent again */
            channel->next = done->next;
        free(done);
    }
    if (!channel->first)
        channel->last = NULL;
}

static enum channel_verdict take_beat(struct channel *channel, const struct frame *frame)
{
    if (frame->counter <= channel->peer_beat)
        return CHANNEL_OLD;
    channel->peer_beat = frame->counter;
    channel->beats_without = channel->confirmed < channel->highest_sent ? channel->beats_without + 1 : 0;
    return CHANNEL_NOTHING;
}

static enum channel_verdict take_ordered(struct channel *channel, const struct frame *frame,
                                         const uint8_t *body, struct channel_item *item)
{
    if (frame->counter > channel->received + 1)
        note_gap(channel);
    if (frame->counter != channel->received + 1)
        return CHANNEL_OLD;
    if (channel->received_weight + weight_of(frame) - channel->taken_weight > CHANNEL_WINDOW_BYTES)
        return CHANNEL_BROKEN;
    if (!channel->partial && begin_item(channel, frame) < 0)
        return CHANNEL_BROKEN;
    bool is_message = frame->kind == FRAME_MESSAGE;
    size_t total = is_message ? frame->total : frame->count;
    if (frame->kind != channel->partial_kind || total != channel->partial_total ||
        frame->count > total - channel->partial_count)
        return CHANNEL_BROKEN;
    channel->received++;
    channel->received_weight += weight_of(frame);
    channel->partial_weight += weight_of(frame);
    memcpy(channel->partial + channel->partial_count, body, frame->count);
    channel->partial_count += frame->count;
    if (channel->partial_count < total)
        return CHANNEL_NOTHING;
    *item = (struct channel_item){frame->kind, channel->partial, total, channel->partial_weight};
    channel->partial = NULL;
    return CHANNEL_WHOLE;
}

/* Once for each counter: further frames of those under way, or repeated ones, say nothing new. */
static void note_gap(struct channel *channel)
{
    if (channel->gap == channel->received + 1)
        return;
    channel->gap = channel->received + 1;
    channel->gap_beats = GAP_BEATS;
}

static int begin_item(struct channel *channel, const struct frame *frame)
{
    size_t total = frame->kind == FRAME_MESSAGE ? frame->total : frame->count;
    channel->partial = malloc(total + 1);
    channel->partial_kind = frame->kind;
    channel->partial_total = total;
    channel->partial_count = channel->partial_weight = 0;
    return channel->partial ? 0 : -1;
}
