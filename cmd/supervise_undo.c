#include <errno.h>
#include <string.h>

#include "cmd/calls.h"
#include "cmd/supervise.h"
#include "cmd/supervise_state.h"
#include "cmd/undo_place.h"
#include "common/util/log.h"
#include "common/wire/job_name.h"

bool supervise_has_common_undo(const struct supervisor *s)
{
    return (s->settings.undo_dir && s->settings.undo_dir[0]) || s->undo.is_shared;
}

/* An agent that cannot be asked is missed when the job is opened there. */
static bool is_seen(const struct undo_place *place, void *context)
{
    struct supervisor *s = context;
    struct belay_error err;
    Belay__Wire__FolderQuery query = BELAY__WIRE__FOLDER_QUERY__INIT;
    Belay__Wire__UndoFolder folder = BELAY__WIRE__UNDO_FOLDER__INIT;
    bool is_everywhere = true;
    folder.path = (char *)(uintptr_t)place->path; /* only read */
    folder.device = place->id.device;
    folder.inode = place->id.inode;
    folder.birth_ns = place->id.birth_ns;
    query.folder = &folder;
    query.kernel = place->kernel;
    query.is_on_network = place->is_on_network;
    for (uint32_t i = 0; is_everywhere && i < s->nodes.count; i++) {
        struct node *node = &s->nodes.of[i];
        if (node->sock < 0 && supervise_connect(s, node, &err) < 0)
            return false;
        const struct caller agent = watch_caller(node);
        Belay__Wire__Reply *reply = call_folder_query(&agent, &query, &err);
        if (!reply)
            log_debug("node %u: %s", i, err.text);
        is_everywhere = reply;
        calls_free(reply);
    }
    return is_everywhere;
}

const char *supervise_choose_undo(struct supervisor *s)
{
    struct undo_place place;
    const char *name = s->name ? s->name : s->plan->name;
    if (s->hosts.count < 2 || supervise_has_common_undo(s))
        return NULL;
    if (undo_place_make(&place, name && job_name_is_valid(name) ? name : NULL, is_seen, s) < 0)
        return errno == EXDEV ? "" : strerror(errno);
    s->undo = (Belay__Wire__UndoFolder)BELAY__WIRE__UNDO_FOLDER__INIT;
    snprintf(s->undo_path, sizeof s->undo_path, "%s", place.path);
    s->undo.path = s->undo_path;
    s->undo.device = place.id.device;
    s->undo.inode = place.id.inode;
    s->undo.birth_ns = place.id.birth_ns;
    s->undo.is_shared = true;
    return NULL;
}

void supervise_drop_undo(struct supervisor *s)
{
    struct undo_place place;
    if (!s->undo.is_shared)
        return;
    snprintf(place.path, sizeof place.path, "%s", s->undo_path);
    undo_place_remove(&place);
}

/* Other hosts see the folder only if all do. */
Belay__Wire__UndoFolder *supervise_undo_for(struct supervisor *s, uint32_t number,
                                            Belay__Wire__UndoFolder *shared)
{
    if (number == 0)
        return s->undo.is_shared ? &s->undo : NULL;
    if (!s->undo_path[0])
        return NULL;
    if (!s->nodes.of[number].is_remote)
        return &s->undo;
    *shared = s->undo;
    shared->device = 0;
    return supervise_has_common_undo(s) ? shared : NULL;
}

/* All nodes are on one machine, or share the folder: what ranks of several of them have changed is put back
 * in one order. */
void supervise_take_undo(struct supervisor *s, const Belay__Wire__UndoFolder *undo)
{
    if (!undo)
        return;
    s->undo = *undo;
    snprintf(s->undo_path, sizeof s->undo_path, "%s", undo->path);
    s->undo.path = s->undo_path;
}

/* Each host undoes what its own ranks have changed, and knows nothing of the others' changes. */
void supervise_tell_of_files(const struct supervisor *s, const char *lack)
{
    if (s->hosts.count < 2 || supervise_has_common_undo(s))
        return;
    log_warning("%s: files that ranks of several hosts change are put back rightly only with --undo-dir "
                "(BELAY_UNDO_DIR), a folder that all hosts share%s%s",
                s->name, lack && lack[0] ? "; none can be made above the working directory: " : "",
                lack ? lack : "");
}

/* Of a node without which the job goes on. */
void supervise_tell_lost_undo(const struct supervisor *s, uint32_t number)
{
    if ((s->nodes.of[number].is_remote || s->is_elsewhere) && !supervise_has_common_undo(s))
        log_warning("%s: what its ranks have changed in files since the line is not put back, since the host "
                    "kept that itself; see --undo-dir",
                    s->name);
}
