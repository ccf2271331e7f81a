#include "tests/sim/mutation.h"

#include <string.h>

static const struct {
    const char *name, *summary;
} mutations[MUTATION_COUNT] = {
    [MUTATION_NONE] = {"none", "the rules as they are"},
    [MUTATION_ABORT_PROTECTED] = {"abort_protected", "the arbiter aborts lines that all are PROTECTED for"},
    [MUTATION_ANY_COPY] = {"any_copy", "a copy counts whatever its root is"},
    [MUTATION_ANY_IMAGE] = {"any_image", "an image that was fetched counts whatever its root is"},
    [MUTATION_ANY_PROCESSOR] = {"any_processor", "nodes do not say of which kind their processors are"},
    [MUTATION_ANY_REFILL] = {"any_refill", "a copy that is made again counts whatever its root is"},
    [MUTATION_BLIND_DELTA] =
        {"blind_delta", "a partner takes a delta to an image that it does not have, and believes its root"},
    [MUTATION_CLOCK_PER_GROUP] = {"clock_per_group", "one collective clock for all communicators of a group"},
    [MUTATION_COMMIT_EARLY] = {"commit_early", "COMMIT after the first PROTECTED"},
    [MUTATION_DRAIN_ALONE] = {"drain_alone", "ranks drain before those of other nodes have stopped"},
    [MUTATION_DRAIN_EARLY] = {"drain_early", "ranks park with messages on the wire"},
    [MUTATION_FEW_MEMBERS] = {"few_members", "an epoch is opened with fewer members than it has to have"},
    [MUTATION_FOLD_TWICE] = {"fold_twice", "a holder stages differences instead of new values"},
    [MUTATION_FORGET_DIRTY] = {"forget_dirty", "an aborted line's dirty set is forgotten"},
    [MUTATION_FORGET_ENTERED] = {"forget_entered", "nodes do not say which epoch they have entered"},
    [MUTATION_FORGET_NUMBER] = {"forget_number", "the number of a line is not recorded before its use"},
    [MUTATION_FORGET_REFUTED] = {"forget_refuted", "nodes do not say which images they have refused"},
    [MUTATION_FORGET_ROOTS] = {"forget_roots", "the arbiter's decision has no roots"},
    [MUTATION_FORGET_SUM] = {"forget_sum", "nodes do not tell the sum of roots that COMMIT told them"},
    [MUTATION_FORGET_YOUNG] = {"forget_young", "targets go where members are known, though some are not"},
    [MUTATION_HASTY_RECORD] = {"hasty_record", "a member goes on before its record is on the disk"},
    [MUTATION_HASTY_REFILL] = {"hasty_refill", "a member drops the former parity when its own is made anew"},
    [MUTATION_HASTY_WORD] = {"hasty_word", "a branch says a word when one voice has"},
    [MUTATION_HOLD_AT_TARGET] = {"hold_at_target", "ranks hold at a target while below another"},
    [MUTATION_HASTY_BRANCH] = {"hasty_branch", "a branch says settled when one voice is"},
    [MUTATION_IGNORE_ROOM] = {"ignore_room", "nodes do not say how much memory they have"},
    [MUTATION_KEEP_FALSE] = {"keep_false", "a node goes on from an image that is not the committed one"},
    [MUTATION_KEEP_RANKS] = {"keep_ranks", "an agent that comes back leaves its old ranks running"},
    [MUTATION_LATE_FENCE] = {"late_fence", "ranks read the flag before they publish their clock"},
    [MUTATION_LATE_RECORD] = {"late_record", "the arbiter tells its decision before it is recorded"},
    [MUTATION_LOSE_DEMAND] = {"lose_demand", "branches do not hand on who is waited for"},
    [MUTATION_NO_FENCE] = {"no_fence", "ranks without an agent run on after their lease"},
    [MUTATION_NO_LEASE] = {"no_lease", "a new epoch starts before the old leases have expired"},
    [MUTATION_NO_MARK] = {"no_mark", "a holder does not note which contributions have come"},
    [MUTATION_NO_PROMISE] = {"no_promise", "agents serve the old epoch after the arbiter's inquiry"},
    [MUTATION_NO_ROOTS] = {"no_roots", "nodes do not tell the roots of what they hold"},
    [MUTATION_PARITY_FIRST] = {"parity_first", "parity is committed before the data"},
    [MUTATION_RAISE_ALONE] = {"raise_alone", "a branch that has said settled raises targets by itself"},
    [MUTATION_REUSE_NUMBER] = {"reuse_number", "the number of an aborted line is used again"},
    [MUTATION_SAME_DOMAIN] = {"same_domain", "copies are in the failure domain of their images"},
    [MUTATION_SAME_MEMORY] = {"same_memory", "a node that has lost its memory keeps its incarnation"},
    [MUTATION_SILENT_IS_GONE] = {"silent_is_gone", "ranks of a node that is given up count as gone"},
    [MUTATION_SHORT_ENTRY] = {"short_entry", "clocks stop at a branch that has not met all members"},
    [MUTATION_SKIP_RELEASE] = {"skip_release", "held ranks are not released along wait-for edges"},
    [MUTATION_STALE_CHILD] = {"stale_child", "a subtree's report counts for newer targets"},
    [MUTATION_STALE_OLD_PAGE] = {"stale_old_page", "old content is taken from an aborted line"},
    [MUTATION_STALE_REPORT] = {"stale_report", "reports count for targets they were not judged against"},
    [MUTATION_TAKE_BACK_ALL] = {"take_back_all", "a void drain forgets what former drains may have taken"},
    [MUTATION_TRUST_AGENT] = {"trust_agent", "ranks of an agent that stands still run on after their lease"},
};

const char *mutation_name(enum mutation mutation)
{
    return mutations[mutation].name;
}

const char *mutation_summary(enum mutation mutation)
{
    return mutations[mutation].summary;
}

bool mutation_is_of_parity(enum mutation mutation)
{
    return mutation == MUTATION_FOLD_TWICE || mutation == MUTATION_HASTY_REFILL ||
           mutation == MUTATION_NO_MARK || mutation == MUTATION_PARITY_FIRST ||
           mutation == MUTATION_STALE_OLD_PAGE;
}

enum mutation mutation_find(const char *name)
{
    for (int i = MUTATION_NONE + 1; i < MUTATION_COUNT; i++)
        if (strcmp(mutations[i].name, name) == 0)
            return (enum mutation)i;
    return MUTATION_NONE;
}
