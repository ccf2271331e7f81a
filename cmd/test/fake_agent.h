/*
 * fake_agent.h - an agent that follows a script, for tests of the supervision loop.
 *
 * Installed as belayd, started as `belayd --rundir DIR`. It takes one word of DIR/script per launch and
 * writes what it is asked to DIR/journal, one line per request. Words:
 *   aborted   the verdict finished, a rank having ended with status 5
 *   finished, lost, lost-at-7, crash-loop, unprotected, refused   the verdict when the launch ends
 *   stop    ask for a stop once the epoch is open; verdict stopped
 *   vanish  end without a word once the epoch is open; vanish-later: when there is a file RUNDIR/vanish
 * A restart is refused with ENODATA if DIR/no-line exists. It ends when its client has gone.
 */
#ifndef BELAY_CMD_TEST_FAKE_AGENT_H
#define BELAY_CMD_TEST_FAKE_AGENT_H

/* Returns in the starting process once the agent listens; the exit code. */
int fake_agent_start(const char *rundir);

#endif
