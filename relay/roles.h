/*
 * roles.h - what a relay may be, each to its end. They return an exit status.
 */
#ifndef BELAY_RELAY_ROLES_H
#define BELAY_RELAY_ROLES_H

#include <stdbool.h>
#include <stdint.h>

#define ROLE_BEAT_MS 500
/*
 * A host that has heard nothing for so long ends its ranks, and only later it is given up by the gatherer, if
 * its kernel still answers. One whose kernel has answered nothing for ROLE_UNANSWERED_MS is given up earlier.
 * In both cases the next epoch waits for the end of the host's lease: so its ranks are gone before others
 * take their place.
 */
#define ROLE_HOST_STALL_MS 3000
#define ROLE_GATHERER_STALL_MS 6000
#define ROLE_UNANSWERED_MS 2000

/*
 * Beside belay run: has a socket for each host that has joined, in folder/node-N, and passes on what its
 * clients and the host's agent say; it removes the folder at its end. The key comes on standard input; its
 * end is the gatherer's. A byte behind the key lets the gatherer fall silent. Lines on standard output tell
 * belay run what has happened:
 *
 *   listen PORT ADDRESS...                at first
 *   joined NODE NAME ADDRESS OWN-ADDRESS  a host is there: its name, where it is, and what it sees of us
 */
int role_gather(const char *folder);

/* On a host: joins the gatherer at one of the addresses, and serves from then on, as a rule in the
 * background. */
struct role_host {
    const char *rundir; /* of the user's agents; that of this host is below it */
    const char *belayd;
    uint32_t node;
    uint16_t port;
    bool stays;             /* with the launcher that has started it, which waits for it */
    char *const *addresses; /* NULL-terminated */
};
int role_host(const struct role_host *host);

/* A process of a launch that tells where it is: "belay-rank RANK NAME" on standard output. needs_pmix: it
 * fails if it has none. */
int role_where(bool needs_pmix);

#endif
