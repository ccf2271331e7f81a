/*
 * outgoing.h - one part or image of a rank on its way to another node: the ranges of its memfd that count,
 * one after the other, each behind a struct part_range. A delta goes as it is, in lines of 64 bytes
 * (node-agent/delta), or as the whole image that it makes.
 *
 * All functions are called from the agent's loop.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_OUTGOING_H
#define BELAY_NODE_AGENT_MEMBER_OUTGOING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "common/util/error.h"
#include "node-agent/delta/choice.h"
#include "node-agent/delta/pack_stream.h"
#include "node-agent/link/remote.h"

/* In front of each range of the file: where it is in the file. */
struct part_range {
    uint64_t offset, bytes;
};

enum outgoing_form {
    OUTGOING_NONE = 0,
    OUTGOING_AS_IT_IS,
    OUTGOING_WHOLE, /* as the image that the delta makes of its base */
    OUTGOING_DELTA, /* as it is or in lines, by the granularity */
};

/* What has gone. */
struct outgoing_figures {
    uint64_t sent_bytes;
    uint64_t page_bytes; /* that it would have been in whole pages */
    uint64_t compare_ns, send_ns;
    uint64_t compared_bytes; /* of pages; 0: nothing was compared */
    bool is_lines;
    struct choice choice;         /* of OUTGOING_DELTA */
    struct packed_figures packed; /* of what goes packed; else all zero */
};

struct outgoing_request {
    uv_loop_t *loop;
    struct remotes *remotes;
    enum remotes_subject subject;
    uint32_t node; /* to that one */
    const void *tag;
    size_t tag_bytes;
    int part; /* an image or a delta; a copy of the descriptor is kept */
    enum outgoing_form form;
    int base; /* the image that the delta changes; it is not changed. Unless the part goes as it is */
    uint64_t base_line; /* its line */
    bool is_tables;     /* all but the pages */
    uint64_t line;
    uint32_t rank;
    enum granularity granularity; /* of OUTGOING_DELTA */
    struct choice_rates rates;
    enum packing packing; /* of all bytes */
    /* All of it was taken (error 0), or not. The figures are valid during the call. Called once, later,
     * unless it was cancelled. */
    void (*done)(void *context, int error, const struct outgoing_figures *figures);
    void *context;
};

struct outgoing;

/* NULL with err. */
struct outgoing *outgoing_start(const struct outgoing_request *request, struct belay_error *err);
/* Nothing that changes in the part from now on reaches the other node, and done() is not called. Frees,
 * later. */
void outgoing_cancel(struct outgoing *outgoing);

#endif
