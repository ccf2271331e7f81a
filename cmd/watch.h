/*
 * watch.h - wait for a launch to end, while listening to the agent and to signals.
 */
#ifndef BELAY_CMD_WATCH_H
#define BELAY_CMD_WATCH_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "cmd/calls.h"
#include "cmd/guard.h"
#include "cmd/halt.h"
#include "cmd/nodes.h"
#include "common/util/error.h"
#include "common/wire/belay.pb-c.h"

/* The signals that belay takes through a descriptor while it supervises. */
struct signals {
    int fd;
    sigset_t original; /* the mask before, for children */
};

/*
 * Block the signals that end or inform a job and make them readable at a descriptor. A signal that was
 * ignored (nohup, a background job of a script) stays ignored. Returns 0, or -1 with err.
 */
int signals_open(struct signals *signals, struct belay_error *err);
void signals_close(struct signals *signals);

struct watch {
    /* Set by the caller. */
    int signal_fd;
    pid_t pid;                 /* the launcher; 0: none */
    bool is_own_group;         /* it has a process group of its own */
    const struct guard *guard; /* over it */
    struct nodes *nodes;       /* whose agents are listened to */
    const char *launched;      /* what the launcher was told to run, for messages */
    bool waits_for_lost;       /* the launcher does not end while a lost host does not answer */
    uint32_t epoch;            /* of the launch */
    bool is_exposed;           /* its line lacks copies; until it is protected again, or the next one is */
    /* All ranks of a node are up; may call the agent. */
    void (*on_ranks_up)(uint32_t node, const Belay__Wire__RanksUp *up, void *context);
    /* A node's agent asks whether another node has lost a rank; may call the agents. */
    void (*on_end_asked)(void *context);
    /* A node has written its part of a line to files, or cannot; may call the agents, and take the event. */
    void (*on_archived)(uint32_t node, Belay__Wire__Event *event, void *context);
    /* Lost nodes are to be looked for: look_at_ms has come, or look_fd is readable. May call the agents. */
    void (*on_look)(void *context);
    long long look_at_ms; /* by CLOCK_MONOTONIC; 0: never. The callback sets both anew */
    int look_fd;          /* -1: none */
    void *context;
    struct halt *halt; /* when the launch is to end by itself */
    /* Found out. */
    bool has_halted;        /* it was ended for that */
    int wait_status;        /* of the launcher */
    int end_signal;         /* a user's SIGINT, SIGTERM, SIGHUP or SIGQUIT to belay; 0: none */
    bool is_stop_requested; /* belay stop */
    long long sign_at_ms;   /* when there was the first sign that something is lost; 0: none */
    char trouble[128];      /* why belay has ended the launch itself; "": it has not */
    uint32_t cut[2];        /* then: the nodes whose link was lost */
    /* Private. */
    bool is_end_asked;         /* and nobody has been answered */
    long long kill_at_ms;      /* when patience ends; 0: not to be ended */
    long long ask_at_ms;       /* when to ask it to end; 0: no more, or not at all */
    int ask_with;              /* this signal */
    bool is_ending;            /* it has lost a rank, and ends by itself */
    long long nudge_at_ms;     /* when to wake it as it waits for ranks to end; 0: not to be */
    long long ended_at_ms;     /* when the user's first signal came */
    char told_reasons[8][200]; /* of the lines that were aborted last; "": none was */
    uint32_t told_count;
    long long tell_at_ms; /* when to say that no rank has come; 0: one has, or it is said */
};

/*
 * Take an event of the agent of a `struct node`: say it, and end the launch if that is what it asks. What
 * needs calls of agents waits for watch_launch().
 */
void watch_take_event(const Belay__Wire__Event *event, void *node);
/* Where the answers and events of a node's agent go. */
struct caller watch_caller(struct node *node);

/* Take the signals that have come, without waiting. */
void watch_take_signals(struct watch *watch);
/* Between two launches: wait this long, or until a user wants the end, and take what agents say. */
void watch_idle(struct watch *watch, int timeout_ms);

/* How long ago the first sign was that something is lost, 0: there was none. */
double watch_sign_age_ms(const struct watch *watch);

/*
 * Return when the launcher has ended (wait_status is set). What should end it is forwarded: a first
 * signal as it is (SIGINT from a terminal has reached it already), a second one as SIGKILL; a stop
 * request as SIGTERM. An agent that is lost (nodes.h) ends the launch as well.
 */
void watch_launch(struct watch *watch);

#endif
