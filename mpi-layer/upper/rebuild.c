/* rebuild.c - see rebuild.h. */
#include "mpi-layer/upper/rebuild.h"

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/attr.h"
#include "mpi-layer/upper/bind.h"
#include "mpi-layer/upper/comm.h"
#include "mpi-layer/upper/datatype.h"
#include "mpi-layer/upper/drain.h"
#include "mpi-layer/upper/errhandler.h"
#include "mpi-layer/upper/error_codes.h"
#include "mpi-layer/upper/file.h"
#include "mpi-layer/upper/group.h"
#include "mpi-layer/upper/half.h"
#include "mpi-layer/upper/info.h"
#include "mpi-layer/upper/init.h"
#include "mpi-layer/upper/line.h"
#include "mpi-layer/upper/op.h"
#include "mpi-layer/upper/p2p.h"
#include "mpi-layer/upper/tool.h"

/* Contents of info objects are noted when they have changed, members of groups once. */
static bool note_objects(void)
{
    for (struct handle *h = handle_first(HANDLE_GROUP); h; h = h->next)
        if (!group_note(h))
            return false;
    for (struct handle *h = handle_first(HANDLE_INFO); h; h = h->next)
        if (!h->record && !(h->record = info_note(h->real, NULL)))
            return false;
    return true;
}

bool rebuild_note(uint64_t line)
{
    if (line_fault("rank.note", line))
        return line_fail("the fault point rank.note was set to fail", 0);
    if (!comm_note_all())
        return line_fail("what it knows of its communicators cannot be noted: no memory", 0);
    if (!file_note_all())
        return line_fail("the MPI library does not tell the position of a file", 0);
    errhandler_sweep();
    if (!tool_note() || !note_objects())
        return line_fail("what it knows of groups, infos and tools cannot be noted: no memory", 0);
    return true;
}

static void restore_all(enum handle_kind kind, void (*restore)(struct handle *handle))
{
    for (struct handle *h = handle_first(kind); h; h = h->next)
        restore(h);
}

static void info_restore(struct handle *info)
{
    info->real = info_make(info->record);
}

/* Oldest first: a datatype is made of older ones. Communicators follow, they need nothing of these. */
static void restore_objects(void)
{
    for (size_t i = 0; i < predefined_handle_count; i++)
        if (predefined_handles[i].kind == HANDLE_DATATYPE)
            datatype_restore_name(predefined_handles[i].object);
    restore_all(HANDLE_DATATYPE, datatype_restore);
    restore_all(HANDLE_OP, op_restore);
    restore_all(HANDLE_GROUP, group_restore);
    restore_all(HANDLE_INFO, info_restore);
    restore_all(HANDLE_ERRHANDLER, errhandler_restore);
}

/* In their original order, which the matching rules of MPI depend on. */
static void post_receives(void)
{
    for (struct request *r = request_first(); r; r = r->next) {
        if (r->is_done || r->kind != REQUEST_RECV || !r->comm)
            continue;
        if (r->comm->ending) /* no message will come */
            r->real = NULL;
        else
            p2p_post(r);
    }
}

void rebuild_all(uint64_t line)
{
    bind_library();
    p2p_bind();
    drain_forget();
    error_codes_restore();
    attr_bind_predefined();
    restore_objects();
    comm_rebuild_all();
    file_restore_all();
    handle_find_again();
    post_receives();
    init_restore();
    tool_restore();
    struct control *control = half_control();
    control->restore_ns = GATE->now_ns() - GATE->mpi_init_done_ns;
    control->restored_line = line;
}
