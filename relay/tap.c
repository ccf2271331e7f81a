/* tap.c - the agent's memory of standard streams, as the relay of its host reads it: mirror.h. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/wire/descriptor.h"
#include "relay/mirror.h"
#include "relay/streams_map.h"
#include "relay/streams_record.h"

#define INPUT_PIECE_BYTES (256u << 10)
#define WAITING_BYTES (4u << 20) /* of the session; then ranks wait for room in their rings */

struct tap {
    struct streams_map map; /* known.position: up to there it was sent */
    struct streams_head told;
    uint8_t piece[STREAMS_RING_BYTES];
};

struct tap *tap_create(const int fds[2], struct belay_error *err)
{
    struct tap *tap = calloc(1, sizeof *tap);
    if (!tap) {
        close(fds[0]);
        close(fds[1]);
        belay_error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    if (streams_map_open(&tap->map, fds, err) < 0) {
        free(tap);
        return NULL;
    }
    if (descriptor_check_memory(fds[0], STREAMS_BYTES, "the memory of standard streams", err) == 0 &&
        descriptor_check_kind(fds[1], DESCRIPTOR_EVENT, "what wakes their reader", err) == 0)
        return tap;
    tap_destroy(tap);
    return NULL;
}

void tap_destroy(struct tap *tap)
{
    if (!tap)
        return;
    streams_map_close(&tap->map);
    free(tap);
}

int tap_fd(const struct tap *tap)
{
    return tap->map.fds[1];
}

static int send_input(struct tap *tap, struct session *session, struct belay_error *err)
{
    const struct streams *head = tap->map.head;
    uint64_t bytes = head->input_bytes < STREAMS_INPUT_MAX ? head->input_bytes : STREAMS_INPUT_MAX;
    struct streams_input input = {.bytes = tap->piece, .has_ended = head->input_has_ended};
    do {
        uint64_t left = bytes - input.offset;
        input.count = left < INPUT_PIECE_BYTES ? left : INPUT_PIECE_BYTES;
        if (pread(tap->map.fds[0], tap->piece, input.count, (off_t)(STREAMS_INPUT_OFFSET + input.offset)) !=
            (ssize_t)input.count)
            return belay_error_errno(err, "the standard input that is kept cannot be read");
        if (streams_record_put_input(session, &input, err) < 0)
            return -1;
        input.offset += input.count;
    } while (input.offset < bytes);
    return 0;
}

/* What the stream has beyond what was sent. A rank that claims to be further ahead than its ring is large has
 * lost it. */
static int send_stream(struct tap *tap, struct session *session, uint32_t rank, uint32_t which,
                       struct belay_error *err)
{
    struct stream *stream = streams_map_stream(&tap->map, rank, which);
    struct streams_known *known = streams_map_known(&tap->map, rank, which);
    struct streams_output output = {.rank = rank,
                                    .which = which,
                                    .end = stream_end_now(stream),
                                    .from = known->position,
                                    .bytes = tap->piece};
    uint64_t taken = __atomic_load_n(&stream->taken, __ATOMIC_ACQUIRE), end = output.end.bytes;
    if (end == known->position)
        return 0;
    if (taken > output.from)
        output.from = taken;
    if (output.from > end || end - output.from > STREAMS_RING_BYTES)
        output.from = end;
    streams_map_get(&tap->map, rank, which, output.from, tap->piece, end - output.from);
    known->position = end;
    return streams_record_put_output(session, RECORD_OUTPUT, &output, err);
}

static int send_streams(struct tap *tap, struct session *session, struct belay_error *err)
{
    for (uint32_t rank = 0; rank < tap->map.ranks; rank++)
        for (uint32_t which = 0; which < STREAMS_PER_RANK; which++)
            if (send_stream(tap, session, rank, which, err) < 0)
                return -1;
    return 0;
}

static bool is_same_head(const struct streams_head *one, const struct streams_head *other)
{
    return one->ranks == other->ranks && one->input_epoch == other->input_epoch &&
           one->is_other_told == other->is_other_told && one->input_from == other->input_from;
}

static int send_new(struct tap *tap, struct session *session, struct belay_error *err)
{
    const struct streams *of = tap->map.head;
    struct streams_head head = {.ranks = __atomic_load_n(&of->ranks, __ATOMIC_ACQUIRE),
                                .input_epoch = __atomic_load_n(&of->input_epoch, __ATOMIC_ACQUIRE),
                                .is_other_told = of->is_other_told};
    head.input_from = of->input_from;
    if (streams_map_grow(&tap->map, head.ranks, err) < 0 || send_streams(tap, session, err) < 0)
        return -1;
    if (is_same_head(&head, &tap->told))
        return 0;
    tap->told = head;
    return streams_record_put_head(session, &head, err);
}

int tap_send_all(struct tap *tap, struct session *session, struct belay_error *err)
{
    return send_input(tap, session, err) < 0 || send_new(tap, session, err) < 0 ? -1 : 0;
}

int tap_look(struct tap *tap, struct session *session, struct belay_error *err)
{
    uint64_t count;
    ssize_t ignored = read(tap->map.fds[1], &count, sizeof count);
    (void)ignored;
    if (session_waiting(session) > WAITING_BYTES)
        return 0;
    if (send_new(tap, session, err) < 0)
        return -1;
    /* Whoever writes after this wakes us; who wrote before it is found by another look. */
    __atomic_store_n(&tap->map.head->is_reader_asleep, 1, __ATOMIC_SEQ_CST);
    return send_new(tap, session, err);
}

static int take_taken(struct tap *tap, const struct streams_output *output)
{
    struct stream *stream = streams_map_stream(&tap->map, output->rank, output->which);
    if (output->from > stream->taken && output->from <= stream_end_now(stream).bytes)
        __atomic_store_n(&stream->taken, output->from, __ATOMIC_RELEASE);
    return 0;
}

/* No rank of the launch has come yet. */
static int take_slot(struct tap *tap, const struct streams_output *output)
{
    struct stream *stream = streams_map_stream(&tap->map, output->rank, output->which);
    streams_map_set_end(stream, &output->end);
    stream->taken = output->from;
    streams_map_known(&tap->map, output->rank, output->which)->position = output->end.bytes;
    return 0;
}

static int take_input(struct tap *tap, const struct record *record, struct belay_error *err)
{
    struct streams_input input;
    if (streams_record_input(record, &input, err) < 0)
        return -1;
    if (input.count > 0 &&
        descriptor_put(tap->map.fds[0], STREAMS_INPUT_OFFSET + input.offset, input.bytes, input.count) < 0)
        return belay_error_errno(err, "standard input cannot be kept");
    tap->map.head->input_bytes = input.offset + input.count;
    tap->map.head->input_has_ended = input.has_ended;
    return 0;
}

int tap_take(struct tap *tap, const struct record *record, struct belay_error *err)
{
    struct streams_output output;
    if (record->kind == RECORD_INPUT)
        return take_input(tap, record, err);
    if (streams_record_output(record, &output, err) < 0 ||
        streams_map_grow(&tap->map, output.rank + 1, err) < 0)
        return -1;
    return record->kind == RECORD_TAKEN ? take_taken(tap, &output) : take_slot(tap, &output);
}
