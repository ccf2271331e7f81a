#include "cmd/launcher.h"

#include "cmd/host_line.h"
#include "cmd/launch_line.h"
#include "cmd/srun_line.h"

static char **spread_mpirun(char *const argv[], char *const environment[], char *const words[])
{
    (void)environment;
    return host_line_spread(argv, words);
}

static bool is_srun_wide(char *const argv[], char *const environment[], const char *own_name)
{
    (void)argv;
    return srun_line_is_wide(environment, own_name);
}

static void name_allocation(char *const argv[], char *names, size_t bytes)
{
    (void)argv;
    if (bytes)
        names[0] = '\0';
}

static const struct launcher mpirun = {
    .name = "mpirun",
    .is_wide = host_line_is_wide,
    .names = host_line_names,
    .where = host_line_where,
    .spread = spread_mpirun,
    .start = host_line_start,
    .place = host_line_place,
};

static const struct launcher srun = {
    .name = "srun",
    .has_relays = true,
    .waits_for_lost = true,
    .is_wide = is_srun_wide,
    .names = name_allocation,
    .where = srun_line_where,
    .spread = srun_line_spread,
    .start = srun_line_start,
    .place = srun_line_place,
};

const struct launcher *launcher_of(const char *program)
{
    if (launch_line_is_mpirun(program))
        return &mpirun;
    return srun_line_is_it(program) ? &srun : NULL;
}
