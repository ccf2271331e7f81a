#include "relay/mirror.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/wire/descriptor.h"
#include "relay/streams_map.h"
#include "relay/streams_record.h"

#define INPUT_PIECE_BYTES (256u << 10)

struct mirror {
    struct streams_map map;    /* known.position: what was told as taken; known.end: as both sides have it */
    struct streams_input sent; /* up to its offset, the other side has the input */
    uint8_t piece[INPUT_PIECE_BYTES];
};

struct mirror *mirror_create(struct belay_error *err)
{
    int fds[2] = {-1, -1};
    const struct streams head = {.magic = STREAMS_MAGIC, .version = STREAMS_VERSION};
    struct mirror *mirror = calloc(1, sizeof *mirror);
    if (!mirror) {
        belay_error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    fds[0] = descriptor_make_memory("belay-streams", STREAMS_BYTES, err);
    fds[1] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fds[0] >= 0 && fds[1] >= 0 && descriptor_put(fds[0], 0, &head, sizeof head) == 0) {
        if (streams_map_open(&mirror->map, fds, err) == 0)
            return mirror;
        free(mirror);
        return NULL;
    }
    if (fds[0] >= 0)
        belay_error_errno(err, "cannot make memory for standard streams");
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(mirror);
    return NULL;
}

void mirror_destroy(struct mirror *mirror)
{
    if (!mirror)
        return;
    streams_map_close(&mirror->map);
    free(mirror);
}

const int *mirror_fds(const struct mirror *mirror)
{
    return mirror->map.fds;
}

static void wake_reader(const struct mirror *mirror)
{
    struct streams *head = mirror->map.head;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(&head->is_reader_asleep, __ATOMIC_RELAXED) &&
        __atomic_exchange_n(&head->is_reader_asleep, 0, __ATOMIC_ACQ_REL))
        eventfd_write(mirror->map.fds[1], 1);
}

/* As many again, so that the memory is not mapped anew for each rank. */
static int grow(struct mirror *mirror, uint32_t ranks, struct belay_error *err)
{
    uint32_t more = mirror->map.ranks < STREAMS_MAX_RANKS / 2 ? 2 * mirror->map.ranks : STREAMS_MAX_RANKS;
    if (ranks <= mirror->map.ranks)
        return 0;
    return streams_map_grow(&mirror->map, ranks > more ? ranks : more, err);
}

/* Output that begins elsewhere than the last one ended has gone another way, or was taken in an earlier
 * launch. */
static int take_output(struct mirror *mirror, const struct record *record, struct belay_error *err)
{
    struct streams_output output;
    if (streams_record_output(record, &output, err) < 0 || grow(mirror, output.rank + 1, err) < 0)
        return -1;
    struct stream *stream = streams_map_stream(&mirror->map, output.rank, output.which);
    struct streams_known *known = streams_map_known(&mirror->map, output.rank, output.which);
    if (output.from != known->end.bytes) {
        __atomic_store_n(&stream->taken, output.from, __ATOMIC_RELEASE);
        known->position = output.from;
    }
    streams_map_put(&mirror->map, output.rank, output.which, output.from, output.bytes,
                    output.end.bytes - output.from);
    known->end = output.end;
    streams_map_set_end(stream, &output.end);
    wake_reader(mirror);
    return 0;
}

static int take_head(struct mirror *mirror, const struct record *record, struct belay_error *err)
{
    struct streams_head head;
    struct streams *to = mirror->map.head;
    if (streams_record_head(record, &head, err) < 0 || grow(mirror, head.ranks, err) < 0)
        return -1;
    to->is_other_told |= head.is_other_told;
    to->input_from = head.input_from;
    __atomic_store_n(&to->input_epoch, head.input_epoch, __ATOMIC_RELEASE);
    __atomic_store_n(&to->ranks, head.ranks, __ATOMIC_RELEASE);
    wake_reader(mirror);
    return 0;
}

static int take_input(struct mirror *mirror, const struct record *record, struct belay_error *err)
{
    struct streams_input *sent = &mirror->sent;
    if (streams_record_input(record, sent, err) < 0)
        return -1;
    if (sent->count > 0 &&
        descriptor_put(mirror->map.fds[0], STREAMS_INPUT_OFFSET + sent->offset, sent->bytes, sent->count) < 0)
        return belay_error_errno(err, "standard input cannot be kept");
    sent->offset += sent->count;
    mirror->map.head->input_bytes = sent->offset;
    mirror->map.head->input_has_ended = sent->has_ended;
    return 0;
}

int mirror_take(struct mirror *mirror, const struct record *record, struct belay_error *err)
{
    switch (record->kind) {
    case RECORD_OUTPUT:
        return take_output(mirror, record, err);
    case RECORD_HEAD:
        return take_head(mirror, record, err);
    case RECORD_INPUT:
        return take_input(mirror, record, err);
    default:
        return belay_error_set(err, EPROTO, "it speaks of standard streams in a way that makes no sense");
    }
}

/* A piece of what the arbiter has kept since. */
static int send_input(struct mirror *mirror, struct session *session, struct belay_error *err)
{
    const struct streams *head = mirror->map.head;
    uint64_t bytes = head->input_bytes < STREAMS_INPUT_MAX ? head->input_bytes : STREAMS_INPUT_MAX;
    struct streams_input input = {.offset = mirror->sent.offset, .bytes = mirror->piece};
    bool has_ended = head->input_has_ended;
    if (bytes <= input.offset && has_ended == mirror->sent.has_ended)
        return 0;
    uint64_t left = bytes > input.offset ? bytes - input.offset : 0;
    input.count = left < INPUT_PIECE_BYTES ? left : INPUT_PIECE_BYTES;
    input.has_ended = has_ended && input.count == left;
    if (pread(mirror->map.fds[0], mirror->piece, input.count, (off_t)(STREAMS_INPUT_OFFSET + input.offset)) !=
        (ssize_t)input.count)
        return belay_error_errno(err, "the standard input that is kept cannot be read");
    mirror->sent.offset += input.count;
    mirror->sent.has_ended = input.has_ended;
    return streams_record_put_input(session, &input, err);
}

static int send_taken(struct mirror *mirror, struct session *session, uint32_t rank, uint32_t which,
                      bool *is_waiting, struct belay_error *err)
{
    struct stream *stream = streams_map_stream(&mirror->map, rank, which);
    struct streams_known *known = streams_map_known(&mirror->map, rank, which);
    uint64_t taken = __atomic_load_n(&stream->taken, __ATOMIC_ACQUIRE);
    *is_waiting |= taken < known->end.bytes;
    if (taken <= known->position)
        return 0;
    known->position = taken;
    const struct streams_output output = {
        .rank = rank, .which = which, .end = {.bytes = taken}, .from = taken};
    return streams_record_put_output(session, RECORD_TAKEN, &output, err);
}

int mirror_look(struct mirror *mirror, struct session *session, bool *is_waiting, struct belay_error *err)
{
    for (uint32_t rank = 0; rank < mirror->map.ranks; rank++)
        for (uint32_t which = 0; which < STREAMS_PER_RANK; which++)
            if (send_taken(mirror, session, rank, which, is_waiting, err) < 0)
                return -1;
    return send_input(mirror, session, err);
}

static int push_stream(struct mirror *mirror, struct session *session, uint32_t rank, uint32_t which,
                       struct belay_error *err)
{
    struct stream *stream = streams_map_stream(&mirror->map, rank, which);
    struct streams_known *known = streams_map_known(&mirror->map, rank, which);
    struct streams_output output = {.rank = rank, .which = which, .end = stream_end_now(stream)};
    if (!memcmp(&output.end, &known->end, sizeof output.end))
        return 0;
    output.from = stream->taken < output.end.bytes ? stream->taken : output.end.bytes;
    known->end = output.end;
    known->position = output.from;
    return streams_record_put_output(session, RECORD_SLOT, &output, err);
}

int mirror_push(struct mirror *mirror, struct session *session, uint32_t ranks, struct belay_error *err)
{
    if (grow(mirror, ranks, err) < 0)
        return -1;
    for (uint32_t rank = 0; rank < mirror->map.ranks; rank++)
        for (uint32_t which = 0; which < STREAMS_PER_RANK; which++)
            if (push_stream(mirror, session, rank, which, err) < 0)
                return -1;
    while (mirror->map.head->input_bytes > mirror->sent.offset)
        if (send_input(mirror, session, err) < 0)
            return -1;
    return 0;
}
