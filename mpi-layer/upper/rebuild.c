/* rebuild.c - see rebuild.h. */
#include "mpi-layer/upper/rebuild.h"


#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/attr.h"
#include "mpi-layer/upper/comm.h"
#include "mpi-layer/upper/datatype.h"
#include "mpi-layer/upper/errhandler.h"
#include "mpi-layer/upper/errors.h"
#include "mpi-layer/upper/file.h"
#include "mpi-layer/upper/group.h"
#include "mpi-layer/upper/half.h"
#include "mpi-layer/upper/info.h"
#include "mpi-layer/upper/init.h"
#include "mpi-layer/upper/op.h"
#include "mpi-layer/upper/p2p.h"
#include "mpi-layer/upper/tool.h"

void rebuild_note(void)
{
    comm_note_all();
    file_note_all();
    errhandler_sweep();
    tool_note();
    for (struct handle *h = handle_first(); h; h = h->next) {
        if (h->kind == HANDLE_GROUP)
            group_note(h);
        else if (h->kind == HANDLE_INFO)
            h->record = info_note(h->real, h->record);
    }
}

/* Oldest first: a datatype is made of older ones. Communicators follow, they need nothing of these. */
static void restore_objects(void)
{
    for (size_t i = 0; i < predefined_handle_count; i++)
        if (predefined_handles[i].kind == HANDLE_DATATYPE)
            datatype_restore_name(predefined_handles[i].object);
    for (struct handle *h = handle_first(); h; h = h->next) {
        if (h->kind == HANDLE_DATATYPE)
            datatype_restore(h);
        else if (h->kind == HANDLE_OP)
            op_restore(h);
        else if (h->kind == HANDLE_GROUP)
            group_restore(h);
        else if (h->kind == HANDLE_INFO)
            h->real = info_make(h->record);
        else if (h->kind == HANDLE_ERRHANDLER)
            errhandler_restore(h);
    }
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
    half_bind();
    p2p_bind();
    errors_restore();
    attr_bind_predefined();
    restore_objects();
    comm_rebuild_all();
    file_restore_all();
    post_receives();
    init_restore();
    tool_restore();
    struct control *control = half_control();
    control->restore_ns = GATE->now_ns() - GATE->mpi_init_done_ns;
    control->restored_line = line;
}
