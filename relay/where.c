/* where.c - see roles.h. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/util/log.h"
#include "relay/roles.h"

int role_where(void)
{
    char name[HOST_NAME_MAX + 1];
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (!rank || gethostname(name, sizeof name) < 0) {
        log_error("this process is not started by mpirun");
        return EXIT_FAILURE;
    }
    printf("belay-rank %s %s\n", rank, name);
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
