/*
 * plan.h - the logs of a job, read and checked: what is to be done, in which order, and what is known of each
 * file. Pure but for reading.
 *
 * A log is used only if it belongs to the agent's user, and each entry only after a check: lengths are
 * bounded, paths are absolute. Data stay in the log until they are needed.
 */
#ifndef BELAY_NODE_AGENT_UNDO_PLAN_H
#define BELAY_NODE_AGENT_UNDO_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "common/util/error.h"
#include "common/wire/undo.h"

/* One rank's log of one line. */
struct plan_log {
    struct plan_log *next;
    uint64_t line;
    uint32_t rank;
    int fd;
};

/* One entry: path and data are in its log. */
struct plan_step {
    struct undo_entry entry;     /* of what was created: with the identity, if that was told */
    uint64_t stored_ns, time_ns; /* of the change, as of an entry */
    uint64_t at;                 /* where in the log the path begins */
    const struct plan_log *log;
};

/* Further facts from the logs about a file. */
enum plan_mark {
    PLAN_MADE = 1,        /* since the line: nothing of it is wanted back */
    PLAN_UNPROTECTED = 2, /* it could not be kept, and is left as it is */
    PLAN_TOLD = 4,        /* ... which the user knows */
};

struct plan_file {
    struct plan_file *next;
    struct file_id id;
    unsigned marks;                  /* enum plan_mark */
    const struct plan_step *removed; /* by which it was set aside first; NULL: it was not */
};

#define PLAN_BUCKETS 4096

struct plan {
    struct plan_log *logs;
    struct plan_step *steps; /* the latest first */
    size_t count, room;
    struct plan_file *files[PLAN_BUCKETS];
};

/* Read the logs of this line and of all later ones in an undo folder. Returns 0 (plan_release() it), or -1
 * with err. */
int plan_read(int folder, uint64_t first_line, struct plan *plan, struct belay_error *err);
void plan_release(struct plan *plan);

/* What is known of a file; made if it is not there yet (NULL: no memory) / NULL if it is not there. */
struct plan_file *plan_file(struct plan *plan, const struct file_id *id);
struct plan_file *plan_find(const struct plan *plan, const struct file_id *id);

/*
 * The path of a step, and the data (both with a NUL behind them; data_bytes + 1 bytes). Return 0, or -1 with
 * errno: EBADMSG: it is no path.
 */
int plan_path(const struct plan_step *step, char path[UNDO_PATH_BYTES]);
int plan_data(const struct plan_step *step, char data[UNDO_DATA_BYTES + 1]);

#endif
