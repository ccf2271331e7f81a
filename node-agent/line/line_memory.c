#include "node-agent/line/line_memory.h"

#include <errno.h>
#include <stdlib.h>

#include "common/util/log.h"

static void tell(struct job *job, uint32_t seen);
static void tell_tracker(const struct job *job, struct memory *const *memories, uint32_t count);
static struct memory *make(struct job *job, const struct rank *rank, struct belay_error *err);

struct memory **memories_create(struct job *job, struct rank *const *ranks, uint32_t count,
                                struct belay_error *err)
{
    struct belay_error warning;
    struct memory **memories = calloc(count, sizeof *memories);
    if (!memories)
        belay_error_set(err, ENOMEM, "out of memory");
    if (store_check_start(job->store, job->config->settings->memory_bytes, &warning) < 0) {
        log_warning("job \"%s\": %s", job->name, warning.text);
        job_tell_text(job, warning.text);
    }
    for (uint32_t i = 0; memories && i < count; i++) {
        memories[i] = make(job, ranks[i], err);
        if (!memories[i]) {
            memories_destroy(memories, count);
            return NULL;
        }
    }
    tell_tracker(job, memories, count);
    return memories;
}

void memories_inherit(struct memory **memories, uint32_t count, struct memory **former, uint32_t former_count)
{
    for (uint32_t i = 0; memories && former && i < count && i < former_count; i++)
        memory_inherit(memories[i], former[i]);
}

void memories_destroy(struct memory **memories, uint32_t count)
{
    for (uint32_t i = 0; memories && i < count; i++)
        memory_unref(memories[i]);
    free(memories);
}

void memories_look(struct job *job, struct memory **memories, struct rank *const *ranks, uint32_t count,
                   uint32_t *told)
{
    uint32_t seen = 0;
    for (uint32_t i = 0; i < count; i++)
        seen |= RANK_FIELD(ranks[i], unseen_writes);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t unseen = (seen & CONTROL_UNSEEN_OTHERS) | RANK_FIELD(ranks[i], unseen_writes);
        if (unseen & CONTROL_UNSEEN_REGISTERED)
            memory_distrust(memories[i], MEMORY_TRUST_NOTHING);
        else if (unseen)
            memory_distrust(memories[i], MEMORY_TRUST_PAUSES);
    }
    if ((seen & ~*told) && !(*told & CONTROL_UNSEEN_REGISTERED)) /* beyond which nothing follows */
        tell(job, seen & ~*told);
    *told |= seen;
}

/* What follows from it. */
static void tell(struct job *job, uint32_t seen)
{
    const char *text;
    if (seen & CONTROL_UNSEEN_REGISTERED)
        text = "the MPI library uses a transport that may write to memory unseen: all memory is copied at "
               "each line ('--mca btl self,vader,tcp' avoids that)";
    else if (seen & CONTROL_UNSEEN_OTHERS)
        text = "ranks write to one another's memory by process_vm_writev: their memory is copied only "
               "while they stand still";
    else
        text = "files are opened with O_DIRECT: the memory of these ranks is copied only while they "
               "stand still";
    log_info("job \"%s\": %s", job->name, text);
    job_tell_text(job, text);
}

static void tell_tracker(const struct job *job, struct memory *const *memories, uint32_t count)
{
    if (memories && count > 0)
        log_info("job \"%s\": written pages are found by %s", job->name, memory_tracker_name(memories[0]));
}

static struct memory *make(struct job *job, const struct rank *rank, struct belay_error *err)
{
    pid_t pid = rank_pid(rank);
    const struct layout *layout = &rank_control(rank)->layout;
    uint64_t line = store_committed_line(job->store);
    int image = line ? store_image(job->store, rank_number(rank)) : -1;
    const struct tracker_ops *ops = tracker_choose(job->config->settings->tracker, err);
    struct memory *memory = NULL;
    if (ops)
        memory = memory_create(pid, layout, ops, rank_take_uffd(rank), image, line, err);
    if (!memory && ops != &tracker_full) {
        log_warning("job \"%s\": rank %u is captured whole at each line: %s", job->name, rank_number(rank),
                    err->text);
        memory = memory_create(pid, layout, &tracker_full, -1, image, line, err);
    }
    bool is_hidden = !memory && (err->code == EACCES || err->code == EPERM); /* from its own user, too */
    if (!memory)
        belay_error_prefix(err, "the memory of rank %u cannot be read%s", rank_number(rank),
                           is_hidden ? " (it may have forbidden that: PR_SET_DUMPABLE)" : "");
    return memory;
}
