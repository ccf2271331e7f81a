/*
 * fake_agent.h - an agent that follows a script, for tests of the supervision loop.
 *
 * Installed as belayd, started as `belayd --rundir DIR`. It takes one word of DIR/script per launch and
 * writes what it is asked to DIR/journal, one line per request. Words:
 *   finished, aborted, refused   rank 2 has ended by itself, called MPI_Abort(5), was refused
 *   lost, lost-at-7, rank-2-lost   a rank was killed (another one in each epoch, or 2), after line 7 or none
 *   unprotected   no rank has come
 *   stop    ask for a stop once the epoch is open
 *   vanish  end without a word once the epoch is open; vanish-later: when there is a file RUNDIR/vanish
 * If there is a file RUNDIR/ranks-come-up it says that two ranks have, and makes RUNDIR/placed when they are.
 * A restart is refused with ENODATA if DIR/no-line exists. It ends when its client has gone.
 */
#ifndef BELAY_CMD_TEST_FAKE_AGENT_H
#define BELAY_CMD_TEST_FAKE_AGENT_H

/* Returns in the starting process once the agent listens; the exit code. */
int fake_agent_start(const char *rundir);

#endif
