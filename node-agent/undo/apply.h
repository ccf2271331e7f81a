/*
 * apply.h - inside of undo/: one run of putting files back, and the data that its steps share.
 *
 * A step ends in one of three ways (enum outcome). DONE: the change is undone. LEFT: others have changed the
 * file meanwhile; it is left as it is, and the job goes on, since an uninterrupted program would have met the
 * same file. FAILED: no room, an I/O error, or a folder that is not where it was; this may succeed later, so
 * the run ends there.
 */
#ifndef BELAY_NODE_AGENT_UNDO_APPLY_H
#define BELAY_NODE_AGENT_UNDO_APPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/undo_replaced.h"
#include "node-agent/undo/plan.h"
#include "node-agent/undo/undo.h"

enum outcome { OUTCOME_FAILED = -1, OUTCOME_DONE = 0, OUTCOME_LEFT };

/* The place of a name: its folder, which is the one that was noted. */
struct place {
    char path[UNDO_PATH_BYTES];
    struct file_id id; /* of the folder */
    int folder;        /* O_PATH; -1: not open */
    const char *name;  /* into path */
};

struct apply {
    int folder; /* the job's undo folder */
    struct undo_request *request;
    struct plan plan;
    struct undo_replaced_list replaced;
    int replaced_fd;            /* its file, -1: not open yet */
    char path[UNDO_PATH_BYTES]; /* of the step that is being done */
    struct place place, other;  /* where that is; where it is renamed from */
    struct file_id target_id;   /* of the file that is open to be written to */
    int target;                 /* ... -1: none */
    uint64_t number;            /* of the step, from 1 */
    uint64_t left;              /* files that are left as they are */
    char data[UNDO_DATA_BYTES + 1];
    struct belay_error *err;
    char why[128]; /* the last step has failed */
};

/* ---- outcomes (apply.c) ---- */

/* A file is left as it is: say so, once for each. The reason is a clause. Returns OUTCOME_LEFT. */
enum outcome apply_left(struct apply *apply, const struct file_id *id, const char *path, const char *reason);

/* A file cannot be put back, by errno; `what` is a clause, NULL: only errno tells. Returns OUTCOME_FAILED. */
enum outcome apply_failed(struct apply *apply, const char *path, const char *what);

/* ---- places (place.c) ---- */

/*
 * Open the folder of a path, which must be the one that was noted. 0, or -1 with errno: ENOENT: it is not
 * there; ELOOP: a symbolic link is in its place or in that of a folder above; ESTALE: another one is.
 */
int place_open(struct apply *apply, struct place *place, const char *path, const struct file_id *folder);
void place_close(struct place *place);
/* Why place_open() has failed, for apply_failed(). */
const char *place_reason(int code);

/* Is the file at the place the one that this was, or was made anew for it? */
bool place_holds(const struct apply *apply, const struct place *place, const struct file_id *id);
/* Is there nothing at the place? */
bool place_is_free(const struct place *place);

/* A descriptor (O_PATH) of a file in the folder of a place, whatever its name is now; -1 with errno. */
int place_find(const struct apply *apply, const struct place *place, const struct file_id *id);

/* Rename without replacing anything, or exchange. Returns 0 or -1 with errno. (name.c) */
int place_move(int from_folder, const char *from, int to_folder, const char *to, bool is_exchange);

/* A file is about to get its name in the place of a former one. Returns 0 or -1 with errno. */
int place_replace(struct apply *apply, const struct file_id *former, const struct file_id *now);

/* ---- steps ---- */

enum outcome step_content(struct apply *apply, const struct plan_step *step); /* content.c */
void step_content_end(struct apply *apply);
enum outcome step_removed(struct apply *apply, const struct plan_step *step); /* removed.c */
enum outcome step_link(struct apply *apply, const struct plan_step *step);
enum outcome step_folder(struct apply *apply, const struct plan_step *step);
enum outcome step_node(struct apply *apply, const struct plan_step *step);
enum outcome step_made(struct apply *apply, const struct plan_step *step); /* name.c */
enum outcome step_renamed(struct apply *apply, const struct plan_step *step);

enum outcome step_attributes(struct apply *apply, const struct plan_step *step); /* attributes.c */

/* Of UNDO_LENGTH: the time of a file that is open, as far as the user may say so. */
void attributes_put_times(struct apply *apply, const struct plan_step *step, int fd);

/* A file that was set aside: its folder and its name in it. */
int kept_open_folder(const struct apply *apply, const struct plan_step *removed);
void kept_name(const struct plan_step *removed, char name[UNDO_KEPT_NAME_BYTES]);

#endif
