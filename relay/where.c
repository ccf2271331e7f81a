/* where.c - see roles.h. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/util/log.h"
#include "relay/roles.h"

/* mpirun may run in a step of srun's, whose variables its processes have, too. */
static const char *find_rank(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank ? rank : getenv("SLURM_PROCID");
}

int role_where(bool needs_pmix)
{
    char name[HOST_NAME_MAX + 1];
    const char *rank = find_rank();
    if (!rank || gethostname(name, sizeof name) < 0) {
        log_error("this process is not started by mpirun or srun");
        return EXIT_FAILURE;
    }
    if (needs_pmix && !getenv("PMIX_RANK")) {
        log_error("this srun gives its tasks no PMIx, which the ranks need: say --mpi=pmix");
        return EXIT_FAILURE;
    }
    printf("belay-rank %s %s\n", rank, name);
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
