/*
 * streams_record.h - the records about standard streams (mirror.h): encoded, decoded and checked.
 */
#ifndef BELAY_RELAY_STREAMS_RECORD_H
#define BELAY_RELAY_STREAMS_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/error.h"
#include "common/wire/streams.h"
#include "relay/session.h"

/* OUTPUT (all of it), TAKEN (rank, which, from), SLOT (rank, which, end, from: what was taken). */
struct streams_output {
    uint32_t rank, which;
    struct stream_end end;
    uint64_t from;
    const uint8_t *bytes; /* of OUTPUT: end.bytes - from of them */
};

/* HEAD. */
struct streams_head {
    uint32_t ranks, input_epoch;
    bool is_other_told;
    uint64_t input_from;
};

/* INPUT. */
struct streams_input {
    uint64_t offset;
    bool has_ended;
    const uint8_t *bytes;
    uint64_t count;
};

/* Queue one. Return 0 or -1 with err. */
int streams_record_put_output(struct session *session, enum record_kind kind,
                              const struct streams_output *output, struct belay_error *err);
int streams_record_put_head(struct session *session, const struct streams_head *head,
                            struct belay_error *err);
int streams_record_put_input(struct session *session, const struct streams_input *input,
                             struct belay_error *err);

/* What has come. Return 0, or -1 with err: it cannot be one. */
int streams_record_output(const struct record *record, struct streams_output *output,
                          struct belay_error *err);
int streams_record_head(const struct record *record, struct streams_head *head, struct belay_error *err);
int streams_record_input(const struct record *record, struct streams_input *input, struct belay_error *err);

#endif
