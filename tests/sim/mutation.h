/*
 * mutation.h - deliberately broken rules. Each must be caught by an invariant; none touches coord/: they
 * change what goes into its machines and what comes out, or the models.
 */
#ifndef BELAY_TESTS_SIM_MUTATION_H
#define BELAY_TESTS_SIM_MUTATION_H

#include <stdbool.h>

enum mutation {
    MUTATION_NONE = 0,
    MUTATION_ABORT_PROTECTED, /* the arbiter aborts what nobody it sees has committed */
    MUTATION_ANY_COPY,        /* a rank's node does not compare the root of the copy with its own */
    MUTATION_ANY_IMAGE,       /* a node that fetches an image does not compare its root */
    MUTATION_ANY_PROCESSOR,   /* nodes do not say of which kind their processors are */
    MUTATION_ANY_REFILL,      /* a copy that is made again after a loss counts whatever its root is */
    MUTATION_BLIND_DELTA,     /* a partner takes a delta whose base it does not have */
    MUTATION_CLOCK_PER_GROUP, /* agents count collectives per group instead of per communicator */
    MUTATION_COMMIT_EARLY,    /* the first PROTECTED counts for all agents */
    MUTATION_DRAIN_ALONE,     /* ranks drain when their own node has told them to stop */
    MUTATION_DRAIN_EARLY,     /* ranks park with messages still on the wire */
    MUTATION_FEW_MEMBERS,     /* an epoch is opened with fewer members than it has to have */
    MUTATION_FOLD_TWICE,      /* a holder stages differences, which an apply that was cut short adds twice */
    MUTATION_FORGET_DIRTY,    /* an aborted line's dirty set is not folded into the next */
    MUTATION_FORGET_ENTERED,
    MUTATION_FORGET_NUMBER,  /* a line's number is not recorded before the line begins */
    MUTATION_FORGET_REFUTED, /* a node does not tell which image it has refused */
    MUTATION_FORGET_ROOTS,   /* the arbiter's decision has no roots */
    MUTATION_FORGET_SUM,     /* nodes do not tell the sum of the roots that COMMIT has told them */
    MUTATION_FORGET_YOUNG,   /* targets go only where members have been counted, though some are unknown */
    MUTATION_HASTY_RECORD,   /* a member goes on before its record is on the disk */
    MUTATION_HASTY_REFILL,   /* a member drops the former parity when its own is made anew */
    MUTATION_HASTY_WORD,     /* a branch says the word of a phase when one voice has */
    MUTATION_HOLD_AT_TARGET, /* ranks hold at their target though they are below another */
    MUTATION_IGNORE_ROOM,    /* nodes do not say how much memory they have */
    MUTATION_KEEP_RANKS,     /* an agent that comes back leaves the ranks of its earlier life running */
    MUTATION_KEEP_FALSE,     /* a node goes on from what it has, though it is not what was committed */
    MUTATION_HASTY_BRANCH,   /* a branch says that its subtree is settled when one voice is */
    MUTATION_LATE_FENCE,     /* ranks look at the flag before they publish, not after */
    MUTATION_LATE_RECORD,    /* the arbiter tells its decision before it is on the disk */
    MUTATION_LOSE_DEMAND,    /* branches do not hand on who is waited for */
    MUTATION_NO_FENCE,       /* keepers let ranks run on without an agent after their lease */
    MUTATION_SILENT_IS_GONE, /* a node that the arbiter gives up counts as one whose ranks are gone */
    MUTATION_NO_MARK,        /* a holder does not note what has come */
    MUTATION_NO_LEASE,       /* the arbiter does not wait for the old epoch's leases */
    MUTATION_NO_PROMISE,     /* agents serve the old epoch after they have answered the arbiter */
    MUTATION_NO_ROOTS,       /* nodes do not tell the roots of what they hold */
    MUTATION_PARITY_FIRST,   /* parity is committed when it is made, before the data */
    MUTATION_RAISE_ALONE,    /* a branch that has said that it is settled makes a new version by itself */
    MUTATION_REUSE_NUMBER,   /* a new epoch counts on from the committed line, not from the last one */
    MUTATION_SAME_DOMAIN,    /* copies are in the failure domain of their images */
    MUTATION_SAME_MEMORY,    /* a node that has lost its memory does not say so */
    MUTATION_SHORT_ENTRY,    /* clocks stop at a branch that has not met all members */
    MUTATION_SKIP_RELEASE,   /* agents do not say who waits for whom */
    MUTATION_STALE_CHILD,    /* what a subtree says of older targets counts for the newest ones */
    MUTATION_STALE_OLD_PAGE, /* deltas are to the capture before, though its line was aborted */
    MUTATION_STALE_REPORT,   /* reports count for newer targets than they were judged against */
    MUTATION_TAKE_BACK_ALL,  /* after a void drain the library's word counts for sends of earlier drains */
    MUTATION_TRUST_AGENT,    /* keepers let ranks run on after their lease while the agent is there */
    MUTATION_COUNT,
};

const char *mutation_name(enum mutation mutation);
const char *mutation_summary(enum mutation mutation);
/* Whether it breaks a rule of parity: such mutants are looked for in seeds of XOR and RS alone, all others in
 * those of the other schemes. */
bool mutation_is_of_parity(enum mutation mutation);
/* MUTATION_NONE if there is none of that name. */
enum mutation mutation_find(const char *name);

#endif
