/*
 * member_records.h - the member's durable record (coord/member.h) in memory that outlives the agent.
 *
 * The memory holds two copies; the whole one with the larger sequence counts, so that an agent killed in the
 * middle of a write finds the former one. Who may change the memory is checked by its owner: what is read
 * there is taken if its sum is right.
 */
#ifndef BELAY_NODE_AGENT_JOB_MEMBER_RECORDS_H
#define BELAY_NODE_AGENT_JOB_MEMBER_RECORDS_H

#include <stdint.h>

#include "common/util/error.h"
#include "coord/member.h"

#define MEMBER_RECORDS_BYTES 4096u

struct member_records_copy;

struct member_records {
    struct member_records_copy *page; /* two of them; NULL: not mapped */
    uint64_t sequence;                /* of the newest copy, 0: never written */
    struct member_record now;
};

/*
 * Map the memory behind fd, of MEMBER_RECORDS_BYTES, and read it. Memory without a whole copy begins anew,
 * with an incarnation that is drawn. fd stays the caller's. Returns 0, or -1 with err and nothing mapped.
 */
int member_records_map(struct member_records *records, int fd, struct belay_error *err);
/* Accepts records that are not mapped. */
void member_records_unmap(struct member_records *records);
void member_records_write(struct member_records *records, const struct member_record *now);

#endif
