#include "coord/branch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coord/converge.h"
#include "coord/epoch.h"

struct voice {
    struct tree_part part; /* the subtree; of voice 0: the own member alone */
    bool has_said;         /* the word of this phase */
};

struct branch {
    const struct branch_ops *ops;
    void *context;
    struct tree_place place;
    struct tree_part part; /* the subtree */
    uint64_t line;         /* in progress, 0: none */
    enum coord_phase phase;
    uint32_t epoch, said_count;
    bool has_aborted; /* ABORT has been said of this line */
    struct converge *converge;
    uint32_t voice_count;
    struct voice voices[];
};

static int take_order(struct branch *branch, const struct coord_action *order);
static int take_targets(struct branch *branch, const struct coord_action *order);
static void begin(struct branch *branch, const struct coord_action *order);
static void enter(struct branch *branch, enum coord_phase phase);
static int take_clocks(struct branch *branch, uint32_t voice, const struct coord_event *word);
static int take_report(struct branch *branch, uint32_t voice, const struct coord_event *word);
static bool is_last(struct branch *branch, uint32_t voice, enum coord_phase phase);
static void pass_on(struct branch *branch, uint32_t voice, const struct coord_event *word);
static void say(struct branch *branch, struct coord_event word);
static void say_aborted(struct branch *branch, const char *reason, bool is_refuted);
static int out_of_memory(struct branch *branch);

static void on_targets(void *context, uint32_t voice, uint32_t version, const struct coord_clock *clocks,
                       uint32_t count);
static void on_demand(void *context, uint32_t voice, uint32_t version, const uint32_t *ranks, uint32_t count);
static void on_clocks(void *context, const struct coord_clock *clocks, uint32_t count);
static void on_report(void *context, const struct coord_report *report);
static const struct converge_ops converge_ops = {
    .order_targets = on_targets, .demand = on_demand, .say_clocks = on_clocks, .report = on_report};

struct branch *branch_create(const struct tree_place *place, const struct branch_ops *ops, void *context)
{
    struct tree_part part = tree_find(&place->tree, place->index, NULL);
    uint32_t count = 1 + tree_child_count(&place->tree, part);
    struct branch *branch = calloc(1, sizeof(*branch) + count * sizeof(*branch->voices));

    if (!branch)
        return NULL;
    branch->ops = ops;
    branch->context = context;
    branch->place = *place;
    branch->part = part;
    branch->voice_count = count;
    branch->voices[0].part = (struct tree_part){.first = part.first, .end = part.first + 1};
    for (uint32_t i = 1; i < count; i++)
        branch->voices[i].part = tree_child(&place->tree, part, i - 1);
    branch->converge = converge_create(place, part, &converge_ops, branch);
    if (!branch->converge) {
        free(branch);
        errno = ENOMEM;
        return NULL;
    }
    return branch;
}

void branch_destroy(struct branch *branch)
{
    int saved_errno = errno;

    if (!branch)
        return;
    converge_destroy(branch->converge);
    free(branch);
    errno = saved_errno;
}

uint32_t branch_voice_count(const struct branch *branch)
{
    return branch->voice_count;
}

uint32_t branch_voice_member(const struct branch *branch, uint32_t voice)
{
    return tree_member(&branch->place.tree, branch->voices[voice].part.first);
}

bool branch_is_group(const struct branch *branch, uint32_t voice)
{
    return branch->voices[voice].part.end - branch->voices[voice].part.first > 1;
}

/* Orders come in the order in which the parent gives them: what is not of the line in progress is late. */
int branch_order(struct branch *branch, const struct coord_action *order)
{
    if (order->type == COORD_ACTION_PREPARE)
        begin(branch, order);
    else if (order->line != branch->line || branch->line == 0)
        return 0;
    return take_order(branch, order);
}

int branch_word(struct branch *branch, uint32_t voice, const struct coord_event *word)
{
    if (voice >= branch->voice_count) {
        errno = EINVAL;
        return -1;
    }
    if (word->type == COORD_EVENT_LOST || word->type == COORD_EVENT_CLOSE) { /* of any line, or none */
        branch->ops->say(branch->context, word);
        return 0;
    }
    if (word->line != branch->line || branch->line == 0)
        return 0;
    switch (word->type) {
    case COORD_EVENT_PREPARED:
    case COORD_EVENT_STOPPED:
    case COORD_EVENT_PARKED:
    case COORD_EVENT_CAPTURED:
    case COORD_EVENT_PROTECTED:
    case COORD_EVENT_COMMITTED:
        pass_on(branch, voice, word);
        return 0;
    case COORD_EVENT_CLOCKS:
        return take_clocks(branch, voice, word);
    case COORD_EVENT_REPORT:
        return take_report(branch, voice, word);
    case COORD_EVENT_ABORT:
        say_aborted(branch, word->reason, word->is_refuted);
        return 0;
    default:
        errno = EINVAL;
        return -1;
    }
}

static int take_order(struct branch *branch, const struct coord_action *order)
{
    static const enum coord_phase phases[] = {
        [COORD_ACTION_PREPARE] = COORD_PHASE_PREPARE, [COORD_ACTION_STROBE] = COORD_PHASE_CLOCKS,
        [COORD_ACTION_STOP] = COORD_PHASE_STOP,       [COORD_ACTION_DRAIN] = COORD_PHASE_DRAIN,
        [COORD_ACTION_CAPTURE] = COORD_PHASE_CAPTURE, [COORD_ACTION_PROTECT] = COORD_PHASE_PROTECT,
        [COORD_ACTION_COMMIT] = COORD_PHASE_COMMIT,   [COORD_ACTION_ABORT] = COORD_PHASE_IDLE,
    };

    if (order->type == COORD_ACTION_TARGETS)
        return take_targets(branch, order);
    if (order->type == COORD_ACTION_DEMAND) {
        if (branch->phase != COORD_PHASE_CONVERGE)
            return 0;
        return converge_demand(branch->converge, order->targets_version, order->ranks, order->rank_count) < 0
                   ? out_of_memory(branch)
                   : 0;
    }
    if (order->type != COORD_ACTION_LEAVE)
        enter(branch, phases[order->type]);
    branch->ops->order(branch->context, BRANCH_ALL, order);
    if (order->type == COORD_ACTION_ABORT)
        branch->line = 0;
    return 0;
}

static int take_targets(struct branch *branch, const struct coord_action *order)
{
    if (branch->phase != COORD_PHASE_CLOCKS && branch->phase != COORD_PHASE_CONVERGE)
        return 0;
    branch->phase = COORD_PHASE_CONVERGE;
    return converge_take_targets(branch->converge, order->targets_version, order->clocks,
                                 order->clock_count) < 0
               ? out_of_memory(branch)
               : 0;
}

static void begin(struct branch *branch, const struct coord_action *order)
{
    branch->line = order->line;
    branch->epoch = order->epoch;
    branch->has_aborted = false;
    converge_begin(branch->converge);
}

static void enter(struct branch *branch, enum coord_phase phase)
{
    branch->phase = phase;
    branch->said_count = 0;
    for (uint32_t i = 0; i < branch->voice_count; i++)
        branch->voices[i].has_said = false;
}

/* The last of the first ones are said together; later ones that raise a target, one by one. */
static int take_clocks(struct branch *branch, uint32_t voice, const struct coord_event *word)
{
    int rc = 0;

    if (branch->phase != COORD_PHASE_CLOCKS && branch->phase != COORD_PHASE_CONVERGE)
        return 0;
    if (converge_take_clocks(branch->converge, voice, word->clocks, word->clock_count) < 0)
        return out_of_memory(branch);
    if (is_last(branch, voice, COORD_PHASE_CLOCKS))
        rc = converge_say_clocks(branch->converge);
    else
        rc = converge_settle(branch->converge);
    return rc < 0 ? out_of_memory(branch) : 0;
}

static int take_report(struct branch *branch, uint32_t voice, const struct coord_event *word)
{
    const struct tree_place *place = &branch->place;

    if (!branch_is_group(branch, voice) &&
        (word->report.rank >= place->rank_count ||
         place->placement[word->report.rank] != branch_voice_member(branch, voice))) {
        errno = EINVAL;
        return -1;
    }
    if (branch->phase != COORD_PHASE_CONVERGE)
        return 0;
    return converge_report(branch->converge, voice, &word->report) < 0 ? out_of_memory(branch) : 0;
}

/* Whether all have said the word of this phase now, and not before. */
static bool is_last(struct branch *branch, uint32_t voice, enum coord_phase phase)
{
    if (branch->phase != phase || branch->voices[voice].has_said)
        return false;
    branch->voices[voice].has_said = true;
    return ++branch->said_count == branch->voice_count;
}

static void pass_on(struct branch *branch, uint32_t voice, const struct coord_event *word)
{
    if (is_last(branch, voice, coord_phase_of_word(word->type)))
        say(branch, (struct coord_event){.type = word->type});
}

static void say(struct branch *branch, struct coord_event word)
{
    word.epoch = branch->epoch;
    word.line = branch->line;
    branch->ops->say(branch->context, &word);
}

/* One reason is enough. */
static void say_aborted(struct branch *branch, const char *reason, bool is_refuted)
{
    if (branch->has_aborted || branch->phase == COORD_PHASE_COMMIT)
        return;
    branch->has_aborted = true;
    say(branch, (struct coord_event){.type = COORD_EVENT_ABORT, .reason = reason, .is_refuted = is_refuted});
}

static int out_of_memory(struct branch *branch)
{
    say_aborted(branch, "an agent that speaks for others is out of memory", false);
    errno = ENOMEM;
    return -1;
}

static void on_targets(void *context, uint32_t voice, uint32_t version, const struct coord_clock *clocks,
                       uint32_t count)
{
    struct branch *branch = context;
    const struct coord_action order = {.type = COORD_ACTION_TARGETS,
                                       .epoch = branch->epoch,
                                       .line = branch->line,
                                       .targets_version = version,
                                       .clocks = clocks,
                                       .clock_count = count};

    branch->ops->order(branch->context, voice, &order);
}

static void on_demand(void *context, uint32_t voice, uint32_t version, const uint32_t *ranks, uint32_t count)
{
    struct branch *branch = context;
    const struct coord_action order = {.type = COORD_ACTION_DEMAND,
                                       .epoch = branch->epoch,
                                       .line = branch->line,
                                       .targets_version = version,
                                       .ranks = ranks,
                                       .rank_count = count};

    branch->ops->order(branch->context, voice, &order);
}

static void on_clocks(void *context, const struct coord_clock *clocks, uint32_t count)
{
    say(context, (struct coord_event){.type = COORD_EVENT_CLOCKS, .clocks = clocks, .clock_count = count});
}

static void on_report(void *context, const struct coord_report *report)
{
    say(context, (struct coord_event){.type = COORD_EVENT_REPORT, .report = *report});
}
