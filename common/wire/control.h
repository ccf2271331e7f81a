/*
 * control.h - the control page: memory that a rank and the agent of its node share.
 *
 * Each rank has one: a sparse memfd of sealed size, which the agent creates and hands over with the Welcome
 * message. The rank may write anything to the page, at any time. So the agent reads a field once and checks
 * the value before it uses it, and never reads its own fields back. The rank also gets an eventfd: it writes
 * 1 there whenever it has published something that the agent may wait for. The agent never waits in the
 * rank's memory; the rank waits on `command_seq` (a futex).
 *
 * Direction of every field: A>R is written by the agent only, R>A by the rank only.
 *
 * Ordering (the fence rule, docs/line.md). A rank publishes (clock, where it is) with plain stores and
 * then reads `command`; the agent stores `command` and then reads what the rank published. One of the
 * two must see the other, so a full barrier is needed on both sides. To keep the rank's path free of
 * one, the rank registers for MEMBARRIER_CMD_GLOBAL_EXPEDITED and the agent calls membarrier(2) with
 * that command after each store to `command`; if the rank could not register it sets `needs_fence`
 * and uses a full fence itself.
 *
 * Consistent reading: `version` is odd while the rank changes its clocks or its report. The agent
 * reads version, the fields, version again, and uses the fields only if both were equal and even;
 * otherwise it waits for the rank's next event.
 */
#ifndef BELAY_COMMON_WIRE_CONTROL_H
#define BELAY_COMMON_WIRE_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/image/layout.h"
#include "common/wire/streams.h"

#define CONTROL_MAGIC 0x62656c61795f6370ull /* "belay_cp" */
#define CONTROL_VERSION 17u
#define CONTROL_BYTES (64ull << 20) /* of the memfd; sparse, so unused slots cost nothing */
#define CONTROL_MAX_PEERS 16
#define CONTROL_MAX_MOVES 64
#define CONTROL_ANYBODY (-1)
#define CONTROL_FAILURE_BYTES 160 /* of a reason, its NUL included */

/* The signal that makes a rank look at its control page while it computes: SIGRTMAX - 2. It is the
 * agent's to send (tgkill to leader_tid) and never visible to the application. */
#define CONTROL_SIGNAL 62

enum control_command {
    CONTROL_RUN = 0,      /* no line in progress for this rank (or it may resume) */
    CONTROL_CONVERGE = 1, /* hold at collectives beyond the target, see docs/line.md */
    CONTROL_STOP = 2,     /* converged: go to the nearest safe point, drain, park */
    CONTROL_EXIT = 3,     /* the epoch is over: leave at once (_exit), the agent will kill otherwise */
};

enum control_state {
    CONTROL_STATE_NONE = 0,  /* rank has not called MPI_Init yet (no line can be taken) */
    CONTROL_STATE_RUNNING,   /* computing, or in a call that needs no other rank */
    CONTROL_STATE_INSIDE,    /* in a collective: (comm, seq) */
    CONTROL_STATE_HELD,      /* holds at the entry of a collective: (comm, seq it would enter) */
    CONTROL_STATE_WAITING,   /* waits for peers (world ranks; peer_count 0: for anybody) */
    CONTROL_STATE_DRAINING,  /* stopped, receives the messages in transit */
    CONTROL_STATE_PARKED,    /* at a known context: its memory may be captured */
    CONTROL_STATE_FINALIZED, /* all ranks have entered MPI_Finalize: no line any more */
};

enum control_exit {
    CONTROL_EXIT_NONE = 0, /* still running, or lost (killed) if the process is gone */
    CONTROL_EXIT_STATUS,   /* the program called exit(status) or returned from main */
    CONTROL_EXIT_ABORT,    /* the program called MPI_Abort(status) */
    CONTROL_EXIT_REFUSED,  /* Belay refused to go on (message in the launcher's standard error) */
    CONTROL_EXIT_EXECUTED, /* it executes another program, which is a rank only if it says hello */
};
#define CONTROL_REFUSED_STATUS 97 /* with which a rank ends that Belay refuses to let go on */

/*
 * What the agent says to an end that ends the whole program (ABORT, or STATUS other than 0), while the rank
 * waits for it. Written once: by the agent, or by a rank whose patience is at its end (GO).
 */
enum control_answer {
    CONTROL_ANSWER_NONE = 0,
    CONTROL_ANSWER_GO,   /* it is the program's own */
    CONTROL_ANSWER_LOST, /* another rank was lost before: the launch is over, and the program is not */
};

/* Kinds of writes to memory that no page table shows, as bits: docs/capture.md. */
enum control_unseen {
    CONTROL_UNSEEN_DIRECT = 1,     /* reads of files opened with O_DIRECT, while these calls last */
    CONTROL_UNSEEN_OTHERS = 2,     /* the rank writes to other processes (process_vm_writev) */
    CONTROL_UNSEEN_REGISTERED = 4, /* a transport writes, at any time, to memory registered with it */
};

/* One live communicator. */
struct control_clock {
    uint64_t comm;        /* R>A world-wide id of the communicator, 0: slot is free */
    uint64_t seq;         /* R>A collectives entered or initiated on it so far */
    uint64_t target_comm; /* A>R the communicator that `target` belongs to (else target counts as 0) */
    uint64_t target;      /* A>R valid for the line in `targets_line` */
    uint64_t size;        /* R>A its members, of both groups of an intercommunicator; 0: not known */
};

/* Where mremap() has put memory of the process: the last of them. R>A, read while the rank is parked */
struct control_moves {
    uint32_t count; /* of all moves so far; the ranges are a ring of the last ones */
    struct {
        uint64_t start, end;
    } ranges[CONTROL_MAX_MOVES];
};

#define CONTROL_MAX_HOLDS 32 /* threads that ask at the same time; more wait */

enum control_hold_state {
    CONTROL_HOLD_FREE = 0,
    CONTROL_HOLD_TAKEN,  /* R>A by a thread that is about to ask */
    CONTROL_HOLD_WANTED, /* R>A */
    CONTROL_HOLD_DONE,   /* A>R */
};

/*
 * Pages of the rank are protected and being copied while it runs (docs/capture.md, "Copy on write"). A call
 * that would take pages away first has them copied: it notes the range, and writes to `page`, which is
 * protected, too: so the agent finds the note, and the write ends when it has been served.
 */
struct control_copying {
    uint32_t is_wanted; /* A>R constant: the job's policy copies so */
    uint32_t is_on;     /* A>R pages are being copied */
    uint64_t page;      /* R>A address of a page of the lower half; 0: none */
    struct control_hold {
        uint32_t state; /* R>A, A>R: enum control_hold_state */
        uint64_t start, end;
    } holds[CONTROL_MAX_HOLDS];
};

/*
 * The image that the rank is restored from is still on its way to this node (docs/restart.md). Pages of it
 * that have not come are holes in its memfd. The rank maps the image, has its userfaultfd catch accesses to
 * it, and then says that it is ready; what it reads of the image by itself, it asks for first.
 */
struct control_loading {
    uint32_t is_on; /* A>R 1 before the rank is welcomed; 0: all of the image is here, nothing is caught */
    uint32_t
        arrivals; /* A>R futex: bumped when parts have come that were asked for, and when is_on changes */
    uint32_t is_ready;           /* R>A everything is mapped; uffd is valid */
    int32_t uffd;                /* R>A its descriptor; 0: none, the rank has waited for the whole image */
    uint32_t asks;               /* R>A bumped when the range has been written */
    uint64_t ask_start, ask_end; /* R>A addresses of pages that it waits for */
};

/* What a program that executes another one hands on to that. R>A, A>R in the page of its new Hello */
struct control_carried {
    struct stream_end outputs[STREAMS_PER_RANK];
    uint64_t input_position;
    uint32_t is_set;
};

struct control {
    /* Constants, written by the agent before the rank maps the page. A>R */
    uint64_t magic;
    uint32_t version_of_layout; /* CONTROL_VERSION */
    uint32_t rank;              /* world rank, 0 .. ranks-1 */
    uint32_t ranks;
    uint32_t epoch;
    uint64_t bytes; /* of the whole memfd */

    /* The agent's orders. A>R */
    uint32_t command __attribute__((aligned(64))); /* enum control_command */
    uint32_t command_seq;                          /* futex: bumped after every change of an order */
    uint64_t line;                                 /* the line that `command` speaks of */
    uint64_t targets_line;                         /* targets in the slots are valid for this line ... */
    uint32_t targets_version;                      /* ... and are the version'th set of it (1, 2, ...) */
    uint32_t exit_answer;                          /* A>R, R>A: enum control_answer */
    uint64_t committed_line;                       /* the newest; 0: none yet in this epoch */
    uint64_t drain_line;     /* the order to stop for this line stands on all pages: messages may be taken */
    uint64_t leave_line;     /* a rank has failed in this line: leave the drain without waiting for sends */
    uint64_t lease_until_ns; /* by CLOCK_MONOTONIC: then the rank changes no file any more; 0: no lease */
    int64_t clock_ahead_ns;  /* of the job's clock: what to add to CLOCK_BOOTTIME (fence.h) */

    /* The rank's report. R>A */
    uint32_t version __attribute__((aligned(64))); /* odd while being changed */
    uint32_t state;                                /* enum control_state */
    uint64_t comm;                                 /* for INSIDE and HELD */
    uint64_t seq;
    uint32_t peer_count; /* for WAITING; 0: anybody */
    int32_t peers[CONTROL_MAX_PEERS];
    uint32_t slots; /* slots in use: clocks[0 .. slots-1] (some may be free) */

    /* Written once or rarely. R>A */
    uint32_t needs_fence __attribute__((aligned(64))); /* 1: membarrier is not available to the rank */
    uint32_t unseen_writes;                            /* enum control_unseen: bits are added, and stay */
    uint32_t leader_tid;                               /* thread to signal, in the rank's pid namespace */
    int32_t tracking_fd;                               /* its userfaultfd, until the first line; 0: none */
    int32_t guard_fd;                                  /* another one, in the same way */
    uint32_t exit_kind;                                /* enum control_exit */
    int32_t exit_status;
    int32_t parcel_fd; /* in state PARKED: a socket with open files in its queue (parcels.h of the agent);
                          0: none */
    uint32_t parcel_is_copied; /* ... 1: all of these files are in the rank's memory, too (travel.h) */
    uint64_t exit_ns;          /* CLOCK_MONOTONIC of the announcement */
    struct layout layout;      /* of its address space; before its first line */

    /* The line just parked. R>A, valid in state PARKED and until the next STOP */
    uint64_t parked_line;
    uint64_t resume_context; /* address, in the rank, of the struct that the image's header names */
    uint64_t drained_messages;
    uint64_t drained_bytes;
    uint64_t drain_ns;     /* from the order to stop, as seen by the rank, to parked */
    uint64_t parked_ns;    /* CLOCK_MONOTONIC when it parked */
    uint64_t resumed_line; /* R>A: the last line after which the program goes on; written last */
    uint64_t resumed_ns;   /* CLOCK_MONOTONIC when the rank ran again */
    uint64_t stood_ns; /* how long the program stood still for it: held at collectives, stopped, and until it
                          went on */
    /* Why this rank cannot do its part in a line. R>A, written before failed_line and once for a line */
    uint64_t failed_line;
    char failure[CONTROL_FAILURE_BYTES];
    /* The restart that brought this process. R>A */
    uint64_t restored_line; /* 0: started from the beginning */
    uint64_t restore_ns;    /* from the end of the new MPI_Init to the first application instruction */

    /*
     * A>R futex: 1 while another rank of the node still stands to be captured. What this rank, which may run
     * already, writes to other processes (CONTROL_UNSEEN_OTHERS) would be newer than the line: it waits.
     */
    uint32_t others_stand;
    struct control_moves moves;
    struct control_carried carried;
    struct control_copying copying;
    struct control_loading loading;

    /* R>A, of the line just parked. */
    uint32_t may_share; /* 1: the process may share memory, or System V objects, with others; notes of pipes
                           and eventfds alone do not count */
    uint32_t shares_count;   /* its notes (shares.h) ... */
    uint64_t shares_address; /* ... in the rank's memory */

    struct control_clock clocks[] __attribute__((aligned(4096)));
};

/*
 * Bracket every change of the report or the clocks: the agent takes nothing in between for good. What begin
 * returns is for end. The processor does not reorder stores (x86 TSO), and the compiler may not.
 */
static inline uint32_t control_publish_begin(struct control *control)
{
    uint32_t version = control->version;
    __atomic_store_n(&control->version, version + 1, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return version;
}

static inline void control_publish_end(struct control *control, uint32_t version)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    __atomic_store_n(&control->version, version + 2, __ATOMIC_RELAXED);
}

/* Does such an exit end the other ranks, too? */
static inline bool control_ends_all(uint32_t kind, int32_t status)
{
    return kind == CONTROL_EXIT_ABORT || (kind == CONTROL_EXIT_STATUS && status != 0);
}

/* Has the rank announced one? */
static inline bool control_is_end_of_all(const struct control *control)
{
    uint32_t kind = __atomic_load_n(&control->exit_kind, __ATOMIC_ACQUIRE); /* written after the status */
    return control_ends_all(kind, control->exit_status);
}

/* Answer it, unless it has an answer. */
static inline void control_answer_exit(struct control *control, uint32_t answer)
{
    uint32_t before = CONTROL_ANSWER_NONE;
    __atomic_compare_exchange_n(&control->exit_answer, &before, answer, false, __ATOMIC_SEQ_CST,
                                __ATOMIC_SEQ_CST);
}

static inline struct control_hold *control_hold_take(struct control_copying *copying)
{
    for (uint32_t i = 0; i < CONTROL_MAX_HOLDS; i++) {
        uint32_t state = CONTROL_HOLD_FREE;
        if (__atomic_compare_exchange_n(&copying->holds[i].state, &state, CONTROL_HOLD_TAKEN, false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            return &copying->holds[i];
    }
    return 0;
}

/*
 * By the rank, before pages in a range are taken away or moved: returns when what has to be copied of them
 * has been copied, or the agent is gone. page: the one that copying->page names. A write to it waits until
 * the agent has looked; its end tells nothing by itself, since the page may not be protected just now.
 */
static inline void control_hold_ask(struct control_copying *copying, volatile uint32_t *page, uint64_t start,
                                    uint64_t end, bool (*is_agent_gone)(void))
{
    struct control_hold *hold = 0;
    while (__atomic_load_n(&copying->is_on, __ATOMIC_SEQ_CST) && !(hold = control_hold_take(copying)))
        if (is_agent_gone())
            return;
    if (!hold)
        return;
    hold->start = start;
    hold->end = end;
    __atomic_store_n(&hold->state, CONTROL_HOLD_WANTED, __ATOMIC_SEQ_CST);
    do
        __atomic_fetch_or(page, 0, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&hold->state, __ATOMIC_SEQ_CST) == CONTROL_HOLD_WANTED &&
           __atomic_load_n(&copying->is_on, __ATOMIC_SEQ_CST) && !is_agent_gone());
    __atomic_store_n(&hold->state, CONTROL_HOLD_FREE, __ATOMIC_SEQ_CST);
}

static inline void control_note_move(struct control_moves *moves, uint64_t start, uint64_t end)
{
    uint32_t slot = __atomic_fetch_add(&moves->count, 1, __ATOMIC_RELAXED) % CONTROL_MAX_MOVES;
    moves->ranges[slot].start = start;
    moves->ranges[slot].end = end;
}

#endif
