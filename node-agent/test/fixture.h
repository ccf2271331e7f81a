/*
 * fixture.h - a real belayd in a run directory of its own, an arbiter and a tool that are connected to it,
 * and ranks played by fake_rank.h; for tests of the whole agent. A step that fails, fails the test.
 */
#ifndef BELAY_NODE_AGENT_TEST_FIXTURE_H
#define BELAY_NODE_AGENT_TEST_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/util/error.h"
#include "common/wire/belay.pb-c.h"
#include "common/wire/states.h"
#include "coord/verdict.h"
#include "node-agent/test/fake_rank.h"

#define RANKS 2u
#define KILLED_STATUS (137 << 8) /* a launcher that says 128 + 9 */
#define REQUEST(name) BELAY__WIRE__REQUEST__BODY_##name

extern char rundir[80];
extern char events[4096]; /* what the arbiter was told, by lines */
extern int arbiter, tool; /* sockets, -1: closed */
extern pid_t agent_pid;
extern pid_t launcher_pid; /* what open_epoch() names as the launcher, 0: none */
extern struct fake_rank ranks[RANKS];
extern struct fake_rank_plan plan; /* of each rank; rank is filled in */

/* For each test: a new agent, and the check that it leaves nothing behind. */
int setup(void **state);
int teardown(void **state);

/* One request and its reply, which done_with() frees; NULL with err. */
Belay__Wire__Reply *call(int sock, Belay__Wire__Request__BodyCase kind, void *body, struct belay_error *err);
Belay__Wire__Reply *must(int sock, Belay__Wire__Request__BodyCase kind, void *body);
void must_fail(int sock, Belay__Wire__Request__BodyCase kind, void *body, const char *words);
void done_with(Belay__Wire__Reply *reply);

/* The path of the belayd that was built, in belayd[PATH_MAX]. */
void agent_program(char *belayd);
void connect_agent(void);
void disconnect(void);
/* Wait for the end of a process that need not be ours. */
void wait_gone(pid_t pid);

void open_job(uint64_t memory_limit_bytes, bool is_restart);
/* The next epoch, as its arbiter opens it. */
void open_epoch(uint64_t restore_line);
/* If the agent has said that they are up: place them. Else nothing. */
void place_ranks_if_up(void);
/* The two steps of an opening: the agent's promise, and the decision. Free the replies. */
Belay__Wire__Reply *inquire(uint32_t epoch, struct belay_error *err);
Belay__Wire__Reply *start_epoch(uint32_t epoch, uint64_t line, const Belay__Wire__NodeState *state,
                                struct belay_error *err);
extern uint32_t newest_epoch; /* of the job, as the arbiter knows */
void close_job(enum job_state state, bool keep_images);
/* Close the launch, and judge what the agent tells of it, as the arbiter does. */
void check_verdict(int wait_status, enum verdict_kind kind, const char *words);

/* Start all ranks; each must say this word. Those that run are placed, as the arbiter does. */
void start_ranks(char word);
void reap_ranks(void);
void finish_ranks(void);
/* Kill one, and hear the verdict on the launch. */
void lose_rank(uint32_t rank, enum verdict_kind kind);

/* A line on demand; returns its number. */
uint64_t checkpoint(void);

/* The job's status; done_with() it. */
Belay__Wire__Reply *status(void);
void check_state(enum job_state state);
/* Ask until the state is there, at most 10 s. */
void wait_state(enum job_state state);

#endif
