/* epoch_enter.c - what comes before a launch: what this node promises and holds, and the arbiter's verdict.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/util/log.h"
#include "node-agent/job/membership.h"
#include "node-agent/launch/epoch.h"
#include "node-agent/launch/record.h"

static int verify(struct job *job, struct belay_error *err);
static void leave_out_others(struct job *job, const struct epoch_start *start);
static void mark_bound(const struct job *job, struct rank_size *sizes);
static bool lacks_own(const struct job *job, const struct epoch_start *start);
static bool is_here(const struct store *store, uint64_t line);
static int settle(void *context, uint64_t line, struct belay_error *err);

int epoch_promise(struct job *job, uint32_t number, struct epoch_state *state, struct belay_error *err)
{
    struct membership_facts facts = {.ranks = store_held_ranks(job->store),
                                     .committed_line = store_committed_line(job->store),
                                     .last_line = job->last_line,
                                     .scheme = job_scheme(job)};
    if (verify(job, err) < 0)
        return -1;
    if (job->record_fd < 0 && record_save(job, err) < 0) /* no line of it would be found again */
        return -1;
    struct holding *held = calloc((size_t)facts.ranks + 1, sizeof *held);
    struct rank_size *sizes = calloc((size_t)facts.ranks + 1, sizeof *sizes);
    struct digest *roots = calloc(2 * (size_t)facts.ranks + 1, sizeof *roots);
    struct holding *tables = calloc((size_t)facts.ranks + 1, sizeof *tables);
    struct parity_holding *parities = NULL;
    if (!held || !sizes || !roots || !tables ||
        store_list_parity(job->store, &parities, &facts.parity_count) < 0) {
        free(tables);
        free(held);
        free(sizes);
        free(roots);
        return belay_error_set(err, ENOMEM, "no memory for another epoch");
    }
    store_list_held(job->store, held);
    store_list_tables(job->store, tables);
    store_list_roots(job->store, roots);
    store_tell_memory(job->store, job->config->settings->memory_bytes, &facts.memory, sizes);
    mark_bound(job, sizes);
    facts.held = held;
    facts.tables = tables;
    facts.parities = parities;
    facts.roots = roots;
    facts.committed_root = store_committed_root(job->store);
    int rc = membership_promise(job->membership, number, &facts, state, err);
    free(held);
    free(tables);
    free(parities);
    free(sizes);
    free(roots);
    return rc < 0 ? belay_error_prefix(err, "job \"%s\"", job->name) : 0;
}

/* Ranks that shared something come to one node, so that they share it again. */
static void mark_bound(const struct job *job, struct rank_size *sizes)
{
    for (uint32_t rank = 0; rank < store_held_ranks(job->store); rank++)
        sizes[rank].is_bound = store_shares(job->store, rank);
}

/*
 * Without deltas that could not be applied before, the line is not to be had. What is damaged is not
 * promised: the rank goes on from its copy on another node, if there is one.
 */
static int verify(struct job *job, struct belay_error *err)
{
    struct store_damage damage;
    char text[BELAY_ERROR_TEXT_BYTES + 128];
    uint64_t line = store_committed_line(job->store);
    if (store_verify(job->store, &damage, err) < 0)
        return belay_error_prefix(err, "job \"%s\": line %" PRIu64 " cannot be brought into its images",
                                  job->name, line);
    if (damage.images == 0)
        return 0;
    snprintf(text, sizeof text,
             "%" PRIu32 " of the images of line %" PRIu64 " on this node are damaged and not used (%s)",
             damage.images, line, damage.first.text);
    log_error("job \"%s\": %s", job->name, text);
    job_tell_text(job, text);
    return 0;
}

/* The arbiter knows which images were committed. Another one counts as damaged: no rank goes on from it. */
static void leave_out_others(struct job *job, const struct epoch_start *start)
{
    for (uint32_t rank = 0; rank < start->rank_count && start->line == store_committed_line(job->store);
         rank++) {
        const struct digest root = store_image_root(job->store, rank);
        if (!digest_is_known(&root) || !digest_is_known(&start->roots[rank]) ||
            digest_is_equal(&root, &start->roots[rank]))
            continue;
        log_error("job \"%s\": the image of rank %" PRIu32 " is not the one of line %" PRIu64
                  " that was committed: it is not used",
                  job->name, rank, start->line);
        store_note_damage(job->store, rank);
        membership_forget_image(job->membership, rank);
    }
}

int epoch_enter(struct job *job, const struct epoch_start *start, struct belay_error *err)
{
    const struct membership_settler settler = {.settle = settle, .context = job};
    leave_out_others(job, start);
    if (lacks_own(job, start))
        return belay_error_set(err, ENODATA, "job \"%s\": line %llu is not here", job->name,
                               (unsigned long long)start->line);
    if (membership_enter(job->membership, start, &settler, err) < 0)
        return belay_error_prefix(err, "job \"%s\"", job->name);
    leave_out_others(job, start); /* what was staged, and the verdict has made an image */
    return 0;
}

/* Is a rank to go on from an image that is to be here, and is not? */
static bool lacks_own(const struct job *job, const struct epoch_start *start)
{
    uint32_t own = epoch_start_index(start, job->config->node);
    for (uint32_t rank = 0; rank < start->rank_count; rank++)
        if (start->placement[rank] == own && start->holder[rank] == own)
            return !is_here(job->store, start->line);
    return false;
}

/* As images, or staged, which the verdict brings into the images. */
static bool is_here(const struct store *store, uint64_t line)
{
    return line == store_committed_line(store) || (line > 0 && line == store_staged_line(store));
}

/* The verdict on the lines of the epoch before: one that was protected and is gone on from is committed now.
 */
static int settle(void *context, uint64_t line, struct belay_error *err)
{
    struct job *job = context;
    uint64_t committed = store_committed_line(job->store);
    if (!is_here(job->store, line)) { /* no rank that goes on from it is here */
        store_drop_staging(job->store);
        return 0;
    }
    if (store_settle(job->store, line, err) < 0)
        return belay_error_prefix(err, "line %llu cannot be brought into its images",
                                  (unsigned long long)line);
    if (line <= committed)
        return 0;
    log_info("job \"%s\": line %llu, which had been protected, is committed by the next epoch's verdict",
             job->name, (unsigned long long)line);
    history_take_entry(&job->history, commits_newest(store_commits(job->store)));
    parcels_drop_before(&job->parcels, job->agent->keeper, job->name, line);
    return 0;
}
