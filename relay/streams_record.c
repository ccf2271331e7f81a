#include "relay/streams_record.h"

#include <errno.h>

#include "common/secure/bytes.h"

#define OUTPUT_BYTES 48u
#define HEAD_BYTES 20u
#define INPUT_BYTES 12u

static int put(struct session *session, const struct record *record, const uint8_t *head, const uint8_t *end,
               struct belay_error *err)
{
    return session_put(session, record, head, (size_t)(end - head)) == 0
               ? 0
               : belay_error_errno(err, "standard streams cannot be passed on");
}

int streams_record_put_output(struct session *session, enum record_kind kind,
                              const struct streams_output *output, struct belay_error *err)
{
    uint8_t head[OUTPUT_BYTES], *at = head;
    struct record record = {.kind = kind, .bytes = output->bytes};
    record.count = kind == RECORD_OUTPUT ? output->end.bytes - output->from : 0;
    at = bytes_put_u32(at, output->rank);
    at = bytes_put_u32(at, output->which);
    at = bytes_put_u64(at, output->end.bytes);
    at = bytes_put_u64(at, output->end.digest);
    at = bytes_put_u64(at, output->end.lines);
    at = bytes_put_u64(at, output->end.begun);
    at = bytes_put_u64(at, output->from);
    return put(session, &record, head, at, err);
}

int streams_record_put_head(struct session *session, const struct streams_head *of, struct belay_error *err)
{
    uint8_t head[HEAD_BYTES], *at = head;
    at = bytes_put_u32(at, of->ranks);
    at = bytes_put_u32(at, of->input_epoch);
    at = bytes_put_u32(at, of->is_other_told);
    at = bytes_put_u64(at, of->input_from);
    return put(session, &(struct record){.kind = RECORD_HEAD}, head, at, err);
}

int streams_record_put_input(struct session *session, const struct streams_input *input,
                             struct belay_error *err)
{
    uint8_t head[INPUT_BYTES], *at = head;
    const struct record record = {.kind = RECORD_INPUT, .bytes = input->bytes, .count = input->count};
    at = bytes_put_u64(at, input->offset);
    at = bytes_put_u32(at, input->has_ended);
    return put(session, &record, head, at, err);
}

static int refuse(struct belay_error *err)
{
    return belay_error_set(err, EPROTO, "it speaks of standard streams in a way that makes no sense");
}

int streams_record_output(const struct record *record, struct streams_output *output, struct belay_error *err)
{
    const uint8_t *at = record->bytes;
    if (record->count < OUTPUT_BYTES)
        return refuse(err);
    output->rank = bytes_get_u32(&at);
    output->which = bytes_get_u32(&at);
    output->end.bytes = bytes_get_u64(&at);
    output->end.digest = bytes_get_u64(&at);
    output->end.lines = bytes_get_u64(&at);
    output->end.begun = bytes_get_u64(&at);
    output->from = bytes_get_u64(&at);
    output->bytes = at;
    uint64_t count = record->count - OUTPUT_BYTES;
    bool has_bytes = record->kind == RECORD_OUTPUT;
    bool is_sound = output->rank < STREAMS_MAX_RANKS && output->which < STREAMS_PER_RANK &&
                    count <= STREAMS_RING_BYTES && output->from <= output->end.bytes &&
                    count == (has_bytes ? output->end.bytes - output->from : 0);
    return is_sound ? 0 : refuse(err);
}

int streams_record_head(const struct record *record, struct streams_head *head, struct belay_error *err)
{
    const uint8_t *at = record->bytes;
    if (record->count != HEAD_BYTES)
        return refuse(err);
    head->ranks = bytes_get_u32(&at);
    head->input_epoch = bytes_get_u32(&at);
    head->is_other_told = bytes_get_u32(&at);
    head->input_from = bytes_get_u64(&at);
    return head->ranks <= STREAMS_MAX_RANKS ? 0 : refuse(err);
}

int streams_record_input(const struct record *record, struct streams_input *input, struct belay_error *err)
{
    const uint8_t *at = record->bytes;
    if (record->count < INPUT_BYTES)
        return refuse(err);
    input->offset = bytes_get_u64(&at);
    input->has_ended = bytes_get_u32(&at);
    input->bytes = at;
    input->count = record->count - INPUT_BYTES;
    bool is_sound = input->offset <= STREAMS_INPUT_MAX && input->count <= STREAMS_INPUT_MAX - input->offset;
    return is_sound ? 0 : refuse(err);
}
