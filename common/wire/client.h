/*
 * client.h - how a tool or a rank finds and calls the agent of its node (blocking; any process).
 */
#ifndef BELAY_COMMON_WIRE_CLIENT_H
#define BELAY_COMMON_WIRE_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/util/error.h"
#include "common/wire/belay.pb-c.h"

/*
 * Connect to rundir/agent.sock, after the checks of rundir.h and peer.h. If no process listens and belayd is
 * not NULL, start that program ("belayd --rundir DIR"; it returns once an agent listens; of several that are
 * started at once, one stays) and connect again. Returns a close-on-exec descriptor (the caller closes it),
 * or -1 with err: ENOENT or ECONNREFUSED if there is no agent and none was to be started.
 */
int agent_connect(const char *rundir, const char *belayd, struct belay_error *err);

/* The same for an agent that is there already, if it answers: -1 with ETIMEDOUT if it does not for 5 s. */
int agent_find(const char *rundir, struct belay_error *err);

/* As agent_connect(), for who may not wait: the agent that listens may hang, or be about to leave. */
int agent_reach(const char *rundir, const char *belayd, struct belay_error *err);

/*
 * Send a request and wait for its reply. Event replies that come first are handed to on_event (NULL:
 * dropped). Descriptors that come with the reply are stored in fds, *fd_count says how much room there is
 * and how many came; both may be NULL (any are closed). A reply with its error text set becomes err.
 * Returns the reply (belay__wire__reply__free_unpacked() it), or NULL with err (ECONNRESET: agent gone).
 */
Belay__Wire__Reply *agent_call(int sock, const Belay__Wire__Request *request, int *fds, unsigned *fd_count,
                               void (*on_event)(const Belay__Wire__Event *event, void *context),
                               void *context, struct belay_error *err);

/*
 * The two halves of agent_call(), for requests to several agents at once: replies come in the order of the
 * requests. agent_send() returns 0 or -1 with err.
 */
int agent_send(int sock, const Belay__Wire__Request *request, struct belay_error *err);
Belay__Wire__Reply *agent_receive(int sock, int *fds, unsigned *fd_count,
                                  void (*on_event)(const Belay__Wire__Event *event, void *context),
                                  void *context, struct belay_error *err);

/*
 * The variables of this process's environment that are for programs of Belay which outlive it: not libraries
 * that are preloaded, settings of allocators and thread pools, and whatever is secret. To be freed, the
 * variables are borrowed; NULL with ENOMEM.
 */
char **agent_environment(void);

#endif
