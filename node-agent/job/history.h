/*
 * history.h - what happened to a job: its epochs, and its last lines.
 */
#ifndef BELAY_NODE_AGENT_JOB_HISTORY_H
#define BELAY_NODE_AGENT_JOB_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#include "common/wire/peer_message.h"
#include "common/wire/placement.h"
#include "common/wire/states.h"
#include "node-agent/store/commits.h"

#define HISTORY_LINES 256 /* kept; older ones are forgotten */
#define HISTORY_REASON_BYTES 512

struct history_line {
    uint64_t line;
    enum line_state state;
    uint64_t image_bytes, dirty_bytes, captured_bytes;
    struct peer_sent sent;
    struct peer_guarded guarded;
    struct peer_copied copied;
    uint64_t begun_at_ms; /* since 1970; 0: not known */
    double converge_ms, drain_ms, pause_ms, felt_pause_ms, protect_ms, total_ms;
    char reason[HISTORY_REASON_BYTES]; /* of an abort */
};

struct history_epoch {
    uint32_t epoch;
    uint64_t restored_line;
    char reason[HISTORY_REASON_BYTES]; /* why it was opened */
    uint64_t begun_at_ms;              /* since 1970; 0: not known */
    double restore_ms, detect_ms, fetch_ms, launch_ms;
    uint32_t lost_nodes[PLACEMENT_NODES_MAX]; /* since the epoch before */
    uint32_t lost_count;
};

struct history {
    struct history_line *lines; /* oldest first */
    size_t line_count;
    struct history_epoch *epochs; /* oldest first, all of them */
    size_t epoch_count;
};

/* A zeroed struct is an empty history. */
void history_release(struct history *history);

/* A new entry of a line or an epoch, zeroed but for its number. NULL with ENOMEM. */
struct history_line *history_add_line(struct history *history, uint64_t line);
struct history_epoch *history_add_epoch(struct history *history, uint32_t epoch);

/* Take over an entry of the commit record; adds the line if the history does not have it. */
void history_take_entry(struct history *history, const struct commit_entry *entry);

/* Now, as the times of entries are told: milliseconds since 1970. */
uint64_t history_now_ms(void);

/* The entry of a line, NULL: none or forgotten. */
struct history_line *history_line(struct history *history, uint64_t line);

#endif
