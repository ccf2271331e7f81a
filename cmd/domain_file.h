/*
 * domain_file.h - the file of --failure-domains: which hosts may be lost together.
 *
 *     # a comment
 *     rack1 a b
 *     rack2 c d
 *
 * A line names a domain and some of its hosts; a domain may have several lines. The file may name hosts that
 * the job does not have. Local nodes are named by their numbers.
 */
#ifndef BELAY_CMD_DOMAIN_FILE_H
#define BELAY_CMD_DOMAIN_FILE_H

#include <limits.h>
#include <stdint.h>

#include "common/util/error.h"
#include "common/wire/placement.h"
#include "coord/parity.h"

#define DOMAIN_NAME_BYTES (HOST_NAME_MAX + 1)

/* The domains of a job's nodes. */
struct domains {
    uint32_t of[PLACEMENT_NODES_MAX];                   /* by node: a number */
    char names[PLACEMENT_NODES_MAX][DOMAIN_NAME_BYTES]; /* by this number */
    uint32_t count;                                     /* of domains */
};

/*
 * Read the file for these nodes; names: of the hosts. Returns 0, or -1 with err, which names file and line
 * (EINVAL: a host is in two domains, or one of the job's in none; or an errno).
 */
int domain_file_read(const char *path, const char *const *names, uint32_t count, struct domains *domains,
                     struct belay_error *err);

/*
 * Can the first `count` nodes be apart (coord/domains.h)? code: of the scheme; without parity, nodes hold
 * copies. Returns 0, or -1 with err (ERANGE).
 */
int domains_check(const struct domains *domains, const char *path, uint32_t count, struct parity_code code,
                  struct belay_error *err);

#endif
