#include "node-agent/member/memory.h"

#include <errno.h>
#include <stdlib.h>

#include "common/conf/conf.h"
#include "common/util/log.h"
#include "node-agent/capture/cow.h"
#include "node-agent/member/loads.h"
#include "node-agent/member/member_state.h"
#include "node-agent/member/words.h"

static void tell(struct line_member *member, uint32_t seen);
static void tell_tracker(const struct line_member *member, struct memory *const *memories);
static struct memory *make(const struct line_member *member, const struct rank *rank,
                           struct belay_error *err);
static void guard(const struct line_member *member, struct memory *memory, const struct rank *rank);

struct memory **memories_create(struct line_member *member, struct belay_error *err)
{
    struct job *job = member->job;
    struct belay_error warning;
    struct memory **memories = calloc(member->count + 1, sizeof *memories);
    if (!memories)
        belay_error_set(err, ENOMEM, "out of memory");
    if (store_check_start(job->store, job->config->settings->memory_bytes, &warning) < 0) {
        log_warning("job \"%s\": %s", job->name, warning.text);
        say_notice(member, warning.text);
    }
    for (uint32_t i = 0; memories && i < member->count; i++) {
        memories[i] = make(member, member->ranks[i], err);
        if (!memories[i]) {
            memories_destroy(memories, member->count);
            return NULL;
        }
        if (policy_protects(member->policy))
            guard(member, memories[i], member->ranks[i]);
    }
    tell_tracker(member, memories);
    return memories;
}

/* Both lists ascend. */
void memories_inherit(struct line_member *member)
{
    for (uint32_t i = 0, k = 0; i < member->count && k < member->former_count;) {
        uint32_t rank = rank_number(member->ranks[i]);
        if (rank == member->former_ranks[k])
            memory_inherit(member->memories[i++], member->former[k++]);
        else if (rank < member->former_ranks[k])
            i++;
        else
            k++;
    }
}

void memories_retire(struct line_member *member)
{
    memories_forget_former(member);
    member->former_ranks = calloc(member->count + 1, sizeof *member->former_ranks);
    if (!member->former_ranks) { /* what they knew is found out again */
        memories_destroy(member->memories, member->count);
        member->memories = NULL;
        return;
    }
    for (uint32_t i = 0; i < member->count; i++)
        member->former_ranks[i] = rank_number(member->ranks[i]);
    member->former = member->memories;
    member->former_count = member->memories ? member->count : 0;
    member->memories = NULL;
}

void memories_forget_former(struct line_member *member)
{
    memories_destroy(member->former, member->former_count);
    free(member->former_ranks);
    member->former = NULL;
    member->former_ranks = NULL;
    member->former_count = 0;
}

void memories_destroy(struct memory **memories, uint32_t count)
{
    for (uint32_t i = 0; memories && i < count; i++)
        memory_unref(memories[i]);
    free(memories);
}

void memories_look(struct line_member *member)
{
    uint32_t seen = 0;
    for (uint32_t i = 0; i < member->count; i++)
        seen |= RANK_FIELD(member->ranks[i], unseen_writes);
    for (uint32_t i = 0; i < member->count; i++) {
        uint32_t unseen = (seen & CONTROL_UNSEEN_OTHERS) | RANK_FIELD(member->ranks[i], unseen_writes);
        if (unseen & CONTROL_UNSEEN_REGISTERED)
            memory_distrust(member->memories[i], MEMORY_TRUST_NOTHING);
        else if (unseen)
            memory_distrust(member->memories[i], MEMORY_TRUST_PAUSES);
    }
    uint32_t told = member->unseen_told;
    if ((seen & ~told) && !(told & CONTROL_UNSEEN_REGISTERED)) /* beyond which nothing follows */
        tell(member, seen & ~told);
    member->unseen_told |= seen;
}

/* What follows from it. */
static void tell(struct line_member *member, uint32_t seen)
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
    log_info("job \"%s\": %s", member->job->name, text);
    say_notice(member, text);
}

/* Without it, the rank is copied in the pause. */
static void guard(const struct line_member *member, struct memory *memory, const struct rank *rank)
{
    const Belay__Wire__JobSettings *settings = member->job->config->settings;
    uint64_t pool_bytes = settings->pool_bytes ? settings->pool_bytes : (uint64_t)conf_default(CONF_POOL);
    struct belay_error err;
    int rc = cow_works() ? memory_guard(memory, rank_take_guard(rank), &err)
                         : belay_error_set(&err, ENOTSUP, "this kernel does not offer it to this user");
    if (rc < 0)
        log_warning("the memory of rank %u cannot be protected while it is copied: %s", rank_number(rank),
                    err.text);
    if (rc == 0 && policy_is_pooled(member->policy) && memory_pool(memory, pool_bytes, &err) < 0)
        log_warning("the memory of rank %u is copied without a pool: %s", rank_number(rank), err.text);
}

static void tell_tracker(const struct line_member *member, struct memory *const *memories)
{
    if (memories && member->count > 0)
        log_info("job \"%s\": written pages are found by %s", member->job->name,
                 memory_tracker_name(memories[0]));
}

/* What a rank was restored from, as a whole or not yet; -1: it has begun anew. */
static int find_image(const struct line_member *member, uint32_t rank, uint64_t *line)
{
    const struct store *store = member->job->store;
    const struct load *load = member->loads ? loads_find(member->loads, rank) : NULL;
    *line = load ? loads_line(member->loads) : store_committed_line(store);
    return load ? load_fd(load) : *line ? store_image(store, rank) : -1;
}

static struct memory *make(const struct line_member *member, const struct rank *rank, struct belay_error *err)
{
    struct job *job = member->job;
    pid_t pid = rank_pid(rank);
    const struct layout *layout = &rank_control(rank)->layout;
    uint64_t line;
    int image = find_image(member, rank_number(rank), &line);
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
