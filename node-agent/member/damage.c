/* damage.c - images are compared with their sums while no line is taken, and damaged ones are replaced; so is
 * what other members have lost. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/conf/conf.h"
#include "common/util/log.h"
#include "node-agent/member/member_state.h"
#include "node-agent/member/memory.h"

/* What a part of the store is, for people. */
static void name_part(const struct line_member *member, uint32_t part, bool is_here, char *text, size_t bytes)
{
    uint32_t number = part % member->world;
    if (part >= store_tables_part(member->world, 0))
        snprintf(text, bytes, "what is kept of the tables of rank %" PRIu32, number);
    else if (part >= store_parity_part(member->world, 0))
        snprintf(text, bytes, "the parity of slot %" PRIu32, number);
    else if (part >= member->world)
        snprintf(text, bytes, "the image of what rank %" PRIu32 " shares with others,", number);
    else
        snprintf(text, bytes, "%s of rank %" PRIu32, is_here ? "the image" : "the copy of the image", number);
}

/*
 * A rank's next line copies everything, which goes to all that hold its images. A guest's node is told so by
 * NEED_BASE when it sends the next delta, and so are all nodes of a set whose parity is damaged. Of what
 * ranks share, which is compared with what is held, the next line is a whole image, and so are tables.
 */
void member_on_damaged(void *context, uint32_t part, const struct belay_error *damage)
{
    struct line_member *member = context;
    struct job *job = member->job;
    char text[BELAY_ERROR_TEXT_BYTES + 192], name[96];
    bool is_here = false;
    store_note_damage(job->store, part);
    for (uint32_t i = 0; i < member->count; i++) {
        if (rank_number(member->ranks[i]) != part)
            continue;
        is_here = true;
        if (member->memories)
            memory_forget_base(member->memories[i]);
    }
    name_part(member, part, is_here, name, sizeof name);
    snprintf(text, sizeof text,
             "%s on node %" PRIu32 " is damaged in memory, and made anew at the next line (%s)", name,
             member->node, damage->text);
    log_error("job \"%s\": %s", job->name, text);
    job_tell_text(job, text);
}

int member_scrub_begin(struct line_member *member, struct belay_error *err)
{
    const Belay__Wire__JobSettings *settings = member->job->config->settings;
    uint64_t interval_ms =
        settings->has_scrub_interval_ms ? settings->scrub_interval_ms : conf_default(CONF_SCRUB_INTERVAL);
    if (!member->scrub)
        member->scrub = scrub_create(member->job->agent->loop, member->job->store, interval_ms,
                                     member_on_damaged, member);
    return member->scrub ? 0 : belay_error_set(err, ENOMEM, "cannot prepare a job's lines");
}

void member_scrub_go_on(struct line_member *member)
{
    if (member->scrub && member->epoch && member->line == 0 && !member->apply && !member->is_apply_due)
        scrub_go_on(member->scrub);
}

void member_scrub_rest(struct line_member *member)
{
    if (member->scrub)
        scrub_rest(member->scrub);
}

/* Whoever has chosen to wait for the next line still gives others what they ask for. */
void member_refill_go_on(struct line_member *member)
{
    const char *word = member->job->config->settings->reprotect;
    if (member->line == 0 && strcmp(word, "line") != 0)
        refill_go_on(member->refill);
}

void member_on_refilled(void *context, uint64_t line)
{
    struct line_member *member = context;
    Belay__Wire__Event event = BELAY__WIRE__EVENT__INIT;
    log_info("job \"%s\": all that node %" PRIu32 " has to hold of line %" PRIu64 " is here",
             member->job->name, member->node, line);
    event.refilled_line = line;
    event.refilled_epoch = member->epoch;
    job_tell(member->job, &event);
}
