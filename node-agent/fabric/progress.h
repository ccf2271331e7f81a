/*
 * progress.h - the thread that moves everything: libfabric's providers go on only while somebody asks them
 * to.
 *
 * It never copies data and never waits for the loop, so its heartbeats are not delayed by either.
 */
#ifndef BELAY_NODE_AGENT_FABRIC_PROGRESS_H
#define BELAY_NODE_AGENT_FABRIC_PROGRESS_H

void *progress_run(void *fabric);

#endif
