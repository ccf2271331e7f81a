/*
 * outlet.h - the ranks' output on its way to belay's own standard output and error (common/wire/streams.h).
 *
 * A thread takes it from the rings, since writing may block for as long as the reader of a pipe likes. What
 * has been written is counted where it outlives this process, so that another one goes on where it was.
 */
#ifndef BELAY_CMD_OUTLET_H
#define BELAY_CMD_OUTLET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/error.h"
#include "common/wire/streams.h"

struct outlet;

/* The job's standard input so far, as the arbiter knows it; an inlet adds to it. */
struct outlet_input {
    uint64_t bytes; /* kept */
    bool has_ended;
};

/*
 * For the streams in the memfd streams_fd, woken by wake_fd; both become the outlet's, also if it fails.
 * NULL with err.
 */
struct outlet *outlet_create(int streams_fd, int wake_fd, struct belay_error *err);

/*
 * A new agent gave others in the place of those that this outlet has served: if they are new ones, they go on
 * where the old ones are. Returns 0 or -1 with err.
 */
int outlet_change(struct outlet *outlet, int streams_fd, int wake_fd, struct belay_error *err);

/*
 * A rank of `from` runs in `to` from now on: there it goes on where it was, and with_input the job's input
 * does so, too. All of its output is out (outlet_finish() of both). Returns 0 or -1 with err.
 */
int outlet_move_rank(struct outlet *from, struct outlet *to, uint32_t rank, bool with_input,
                     struct belay_error *err);

/* The memfd of the streams, and what is known of the input in it; both stay the outlet's. */
int outlet_streams(const struct outlet *outlet);
struct outlet_input *outlet_input(struct outlet *outlet);

/* How many ranks the job has on all nodes, in this launch or an earlier one; 0: none has come. */
uint32_t outlet_ranks(const struct outlet *outlet);

/*
 * Start to forward, to STDOUT_FILENO and STDERR_FILENO. If the ranks of this launch give their output to the
 * launcher, only what is left of an earlier one is forwarded, at once. Once. Returns 0 or -1 with err.
 */
int outlet_start(struct outlet *outlet, bool is_forwarded, struct belay_error *err);

/*
 * The launch is lost: where its ranks were in the middle of a line, those of the next launch will write the
 * rest. Or (is_cut false) that launch runs.
 */
void outlet_set_cut(struct outlet *outlet, bool is_cut);

/*
 * All that the ranks have written is out when this returns; they have ended. With is_hurried it is given up
 * after a second, if nobody reads.
 */
void outlet_finish(struct outlet *outlet, bool is_hurried);

/* Accepts NULL. */
void outlet_destroy(struct outlet *outlet);

#endif
