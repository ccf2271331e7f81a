/*
 * gate.h - who may connect at all: hosts of the job.
 *
 * A provider of libfabric reads what comes over a connection before an agent can tell who has made it, and
 * some of what strangers send ends the process (tcp of libfabric 1.17). So the kernel drops the first packet
 * of their connections: a filter on the socket that listens (SO_ATTACH_FILTER, socket(7)) knows the addresses
 * of the job's hosts.
 */
#ifndef BELAY_NODE_AGENT_FABRIC_GATE_H
#define BELAY_NODE_AGENT_FABRIC_GATE_H

#include <stddef.h>

#include "common/secure/identity.h"
#include "common/util/error.h"

#define GATE_HOSTS_MAX 200u

/*
 * Of the sockets of this process that listen at `own`: from now on only hosts of these addresses, ports
 * aside, may connect; count 0: all may. Connections that were made stay. Addresses that are not of IPv4 are
 * not filtered, nor are more than GATE_HOSTS_MAX. Returns how many sockets have a filter, or -1 with err.
 */
int gate_set(const struct fabric_address *own, const struct fabric_address *hosts, size_t count,
             struct belay_error *err);

#endif
