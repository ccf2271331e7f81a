/*
 * linger.h - a relay that stays with its launcher (roles.h), and that `belay run` has given up.
 *
 * The launcher ends all that its task leaves behind: the agent, and the keeper with what this host holds. The
 * job may come back for that, so the relay ends after the keeper.
 */
#ifndef BELAY_RELAY_LINGER_H
#define BELAY_RELAY_LINGER_H

/* Returns when no keeper serves the run directory of this host any more. */
void linger(const char *rundir);

#endif
