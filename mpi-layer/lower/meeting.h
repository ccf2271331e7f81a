/*
 * meeting.h - ranks of a launch on several hosts, without `belay run`: how their agents find one another
 * (docs/hosts.md).
 *
 * The first rank starts an arbiter, the first rank of each other host a relay to it. When the arbiter has
 * opened the job's first epoch, all ranks have in their environment what `belay run` would have given them.
 */
#ifndef BELAY_MPI_LAYER_LOWER_MEETING_H
#define BELAY_MPI_LAYER_LOWER_MEETING_H

#include "common/util/error.h"
#include "mpi-layer/lower/rank.h"

struct meeting_place {
    const char *program; /* the application's executable */
    const char *folder;  /* of Belay's programs, with a slash at its end */
};

/*
 * Meet, if the launch has several hosts and no `belay run`. Returns 0, or -1 with err; the empty text says
 * that another process tells why.
 */
int meeting_hold(const struct rank *rank, const struct meeting_place *place, struct belay_error *err);

/* MPI_Init is over, or the program ends without it. Lower half's FS base. */
void meeting_leave(void);

#endif
