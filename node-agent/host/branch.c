#include "node-agent/host/branch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/log.h"
#include "common/wire/peer_message.h"
#include "coord/branch.h"
#include "node-agent/host/measure.h"
#include "node-agent/host/translate.h"

#define REASON_BYTES 512

struct voice {
    struct line_branch *branch;
    uint32_t number, node;
    struct link *link;
    bool is_ready, is_lost;
};

struct line_branch {
    struct job *job;
    struct branch *machine;
    uint32_t epoch, node, parent;
    struct tree_place place;
    struct link *up; /* NULL: it is lost */
    bool *is_there;  /* by rank: its member has said that it runs */
    uint32_t ready;  /* voices */
    bool has_closed;
    bool has_root;                /* in the newest order: */
    struct digest root;           /* of all ranks, in COMMIT */
    bool archives;                /* the line, as COMMIT says */
    struct host_measure measure;  /* of the line in progress, by voice */
    struct host_measure settling; /* of the one before */
    uint32_t voice_count;
    struct voice voices[];
};

static void destroy_links(const struct line_branch_epoch *epoch, uint32_t count);
static void open_links(struct line_branch *branch, const struct line_branch_epoch *epoch);
static void on_order(void *context, const uint8_t *bytes, size_t count);
static void on_parent_lost(void *context, const char *reason);
static void on_word(void *context, const uint8_t *bytes, size_t count);
static void on_voice_lost(void *context, const char *reason);
static void take_word(struct voice *voice, const struct peer_message *message);
static void take_ready(struct voice *voice, const struct peer_message *message);
static void take_measures(struct voice *voice, const struct peer_message *message);
static void say_ready(struct line_branch *branch);
static void step(struct voice *voice, const struct peer_message *message);
static void lose(struct voice *voice, const char *reason);
static void give_order(void *context, uint32_t voice, const struct coord_action *action);
static void say_word(void *context, const struct coord_event *word);
static void say(struct line_branch *branch, struct peer_message message);

static const struct link_ops up_ops = {.received = on_order, .lost = on_parent_lost};
static const struct link_ops voice_ops = {.received = on_word, .lost = on_voice_lost};
static const struct branch_ops branch_ops = {.order = give_order, .say = say_word};

struct line_branch *line_branch_create(struct job *job, const struct line_branch_epoch *epoch,
                                       struct belay_error *err)
{
    struct tree_part part = tree_find(&epoch->place.tree, epoch->place.index, NULL);
    uint32_t count = 1 + tree_child_count(&epoch->place.tree, part);
    struct line_branch *branch = calloc(1, sizeof *branch + count * sizeof *branch->voices);
    if (branch) {
        branch->machine = branch_create(&epoch->place, &branch_ops, branch);
        branch->is_there = calloc((size_t)epoch->place.rank_count + 1, sizeof *branch->is_there);
    }
    if (!branch || !branch->machine || !branch->is_there) {
        destroy_links(epoch, count);
        if (branch)
            branch_destroy(branch->machine);
        free(branch);
        belay_error_set(err, ENOMEM, "no memory for the links of an epoch");
        return NULL;
    }
    branch->job = job;
    branch->epoch = epoch->number;
    branch->node = epoch->node;
    branch->parent = epoch->parent;
    branch->place = epoch->place;
    branch->voice_count = count;
    log_info("job \"%s\": in the tree of epoch %u this node speaks for %u other nodes", job->name,
             epoch->number, part.end - part.first - 1);
    open_links(branch, epoch);
    return branch;
}

void line_branch_destroy(struct line_branch *branch)
{
    if (!branch)
        return;
    link_destroy(branch->up);
    for (uint32_t i = 0; i < branch->voice_count; i++)
        link_destroy(branch->voices[i].link);
    measure_release(&branch->measure);
    measure_release(&branch->settling);
    branch_destroy(branch->machine);
    free(branch->is_there);
    free(branch);
}

static void destroy_links(const struct line_branch_epoch *epoch, uint32_t count)
{
    link_destroy(epoch->up);
    for (uint32_t i = 0; i < count; i++)
        link_destroy(epoch->below[i]);
}

static void open_links(struct line_branch *branch, const struct line_branch_epoch *epoch)
{
    for (uint32_t i = 0; i < branch->voice_count; i++) {
        branch->voices[i] = (struct voice){.branch = branch,
                                           .number = i,
                                           .node = epoch->members[branch_voice_member(branch->machine, i)],
                                           .link = epoch->below[i]};
        link_open(branch->voices[i].link, &voice_ops, &branch->voices[i]);
    }
    branch->up = epoch->up;
    link_open(branch->up, &up_ops, branch);
}

/* A line begins when the former one has ended, but its ranks may not all run again. */
static void on_order(void *context, const uint8_t *bytes, size_t count)
{
    struct line_branch *branch = context;
    const struct peer_expected expected = {
        .role = PEER_HOST, .node = branch->parent, .epoch = branch->epoch, .ranks = branch->place.rank_count};
    struct belay_error err;
    struct peer_message message;
    struct peer_unpacked *unpacked = peer_message_unpack(bytes, count, &expected, &message, &err);
    if (!unpacked) {
        on_parent_lost(branch, err.text);
        return;
    }
    const struct coord_action action = translate_ordered(&message);
    if (action.type == COORD_ACTION_PREPARE) {
        measure_release(&branch->settling);
        branch->settling = branch->measure;
        branch->measure = (struct host_measure){0};
        measure_begin(&branch->measure, action.line, branch->voice_count);
    }
    branch->has_root = message.has_root;
    branch->root = message.root;
    branch->archives = message.archives;
    if (action.type != COORD_ACTION_NONE && branch_order(branch->machine, &action) < 0)
        log_error("job \"%s\": a branch of the tree: %s", branch->job->name, strerror(errno));
    peer_message_release(unpacked);
}

/* Nobody drives the line any more. The children hear it in the same way; the own member gets the order. */
static void on_parent_lost(void *context, const char *reason)
{
    struct line_branch *branch = context;
    const struct coord_action abort = {.type = COORD_ACTION_ABORT,
                                       .epoch = branch->epoch,
                                       .line = branch->measure.line,
                                       .reason = "the host of the line is lost"};
    if (!branch->up)
        return;
    log_warning("job \"%s\": the agent above this one is lost: %s", branch->job->name, reason);
    link_destroy(branch->up);
    branch->up = NULL;
    branch_order(branch->machine, &abort);
    for (uint32_t i = 1; i < branch->voice_count; i++) {
        link_destroy(branch->voices[i].link);
        branch->voices[i].link = NULL;
        branch->voices[i].is_lost = true;
    }
}

static void on_word(void *context, const uint8_t *bytes, size_t count)
{
    struct voice *voice = context;
    const struct line_branch *branch = voice->branch;
    const struct peer_expected expected = {
        .role = PEER_MEMBER, .node = voice->node, .epoch = branch->epoch, .ranks = branch->place.rank_count};
    struct belay_error err;
    struct peer_message message;
    if (voice->is_lost)
        return;
    struct peer_unpacked *unpacked = peer_message_unpack(bytes, count, &expected, &message, &err);
    if (unpacked)
        take_word(voice, &message);
    else
        lose(voice, err.text);
    peer_message_release(unpacked);
}

static void on_voice_lost(void *context, const char *reason)
{
    struct voice *voice = context;
    if (!voice->is_lost)
        lose(voice, reason);
}

/* What concerns one member alone, and what ends the epoch, goes up as it is. */
static void take_word(struct voice *voice, const struct peer_message *message)
{
    struct line_branch *branch = voice->branch;
    take_measures(voice, message);
    switch (message->kind) {
    case PEER_READY:
        take_ready(voice, message);
        break;
    case PEER_CLOSE:
        if (!branch->has_closed)
            say(branch, *message);
        branch->has_closed = true;
        break;
    case PEER_UNREADY:
    case PEER_UNRECORDED:
    case PEER_UNAPPLIED:
    case PEER_LOST:
    case PEER_NOTICE:
        say(branch, *message);
        break;
    case PEER_RECORDED:
    case PEER_RESUMED:
        break;
    default:
        step(voice, message);
        break;
    }
}

/* Each rank is where the arbiter has placed it. */
static void take_ready(struct voice *voice, const struct peer_message *message)
{
    struct line_branch *branch = voice->branch;
    const struct tree_place *place = &branch->place;
    struct tree_part part = tree_find(&place->tree, place->index, NULL);
    for (uint32_t i = 0; i < message->rank_count; i++) {
        uint32_t rank = message->ranks[i], child = tree_child_of(&place->tree, part, place->placement[rank]);
        if (voice->number != (child == TREE_HEAD ? 0 : child == TREE_OUTSIDE ? UINT32_MAX : child + 1)) {
            lose(voice, "it names ranks that are not its own");
            return;
        }
        branch->is_there[rank] = true;
    }
    if (voice->is_ready) {
        lose(voice, "it says twice that its ranks run");
        return;
    }
    voice->is_ready = true;
    if (++branch->ready == branch->voice_count)
        say_ready(branch);
}

static void say_ready(struct line_branch *branch)
{
    uint32_t *ranks = calloc((size_t)branch->place.rank_count + 1, sizeof *ranks), count = 0;
    for (uint32_t rank = 0; ranks && rank < branch->place.rank_count; rank++)
        if (branch->is_there[rank])
            ranks[count++] = rank;
    if (ranks)
        say(branch, (struct peer_message){.kind = PEER_READY, .ranks = ranks, .rank_count = count});
    else
        say(branch, (struct peer_message){.kind = PEER_UNREADY,
                                          .reason = "no line can be taken of this launch: out of memory"});
    free(ranks);
}

/* Of times the longest goes up, of sizes the sum: with the word that all have said, and with an abort. */
static void take_measures(struct voice *voice, const struct peer_message *message)
{
    struct line_branch *branch = voice->branch;
    struct host_measure *measure =
        message->line == branch->measure.line ? &branch->measure : &branch->settling;
    if (message->line == 0 || message->line != measure->line)
        return;
    measure_take(measure, voice->number, &message->measures);
    measure_take_root(measure, voice->number, message);
    bool is_last = message->kind == PEER_RECORDED  ? measure_note_recorded(measure, voice->number)
                   : message->kind == PEER_RESUMED ? measure_note_resumed(measure, voice->number)
                                                   : false;
    if (is_last)
        say(branch, (struct peer_message){
                        .kind = message->kind, .line = message->line, .measures = measure_merge(measure)});
}

static void step(struct voice *voice, const struct peer_message *message)
{
    const struct coord_event event = translate_word(message);
    if (event.type == COORD_EVENT_NONE || branch_word(voice->branch->machine, voice->number, &event) == 0)
        return;
    if (errno == EINVAL)
        lose(voice, "it reports of a rank that is not its own");
    else
        log_error("job \"%s\": a branch of the tree: %s", voice->branch->job->name, strerror(errno));
}

/* What it says can be relied on no more: the epoch ends. */
static void lose(struct voice *voice, const char *reason)
{
    char text[REASON_BYTES];
    voice->is_lost = true;
    snprintf(text, sizeof text, "the agent of node %u is lost: %.400s", voice->node, reason);
    log_warning("job \"%s\": %s", voice->branch->job->name, text);
    say(voice->branch, (struct peer_message){.kind = PEER_LOST, .reason = text});
}

static void give_order(void *context, uint32_t voice, const struct coord_action *action)
{
    struct line_branch *branch = context;
    struct peer_message message = translate_order(action);
    message.node = branch->node;
    message.epoch = branch->epoch;
    if (action->type == COORD_ACTION_COMMIT) {
        message.has_root = branch->has_root;
        message.root = branch->root;
        message.archives = branch->archives;
    }
    for (uint32_t i = 0; i < branch->voice_count; i++)
        if ((voice == BRANCH_ALL || voice == i) && branch->voices[i].link)
            link_say(branch->voices[i].link, &message);
}

static void say_word(void *context, const struct coord_event *word)
{
    struct line_branch *branch = context;
    struct peer_message message = translate_said(word);
    if (message.line != 0 && message.line == branch->measure.line)
        message.measures = measure_merge(&branch->measure);
    if (message.kind == PEER_PROTECTED)
        measure_tell_root(&branch->measure, &message);
    say(branch, message);
}

/* As this node's. */
static void say(struct line_branch *branch, struct peer_message message)
{
    if (!branch->up)
        return;
    message.role = PEER_MEMBER;
    message.node = branch->node;
    message.epoch = branch->epoch;
    link_say(branch->up, &message);
}
