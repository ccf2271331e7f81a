#include "common/wire/states.h"

#include <string.h>

#define COUNT(names) ((int)(sizeof(names) / sizeof(names)[0]))

static const char *const job_names[] = {
    [JOB_STATE_NONE] = "none",         [JOB_STATE_STARTING] = "starting",
    [JOB_STATE_RUNNING] = "running",   [JOB_STATE_RESTARTING] = "restarting",
    [JOB_STATE_FINISHED] = "finished", [JOB_STATE_FAILED] = "failed",
    [JOB_STATE_STOPPED] = "stopped",   [JOB_STATE_LOST] = "lost",
};

static const char *const line_names[] = {
    [LINE_STATE_NONE] = "none",           [LINE_STATE_RUNNING] = "running",
    [LINE_STATE_CAPTURED] = "captured",   [LINE_STATE_PROTECTED] = "protected",
    [LINE_STATE_COMMITTED] = "committed", [LINE_STATE_ABORTED] = "aborted",
};

static const char *name_of(int number, const char *const *names, int count)
{
    return names[number > 0 && number < count ? number : 0];
}

static int number_of(int number, const char *name, const char *const *names, int count)
{
    if (number != 0)
        return number > 0 && number < count ? number : 0;
    for (int i = 1; i < count; i++)
        if (!strcmp(name, names[i]))
            return i;
    return 0;
}

const char *job_state_name(enum job_state state)
{
    return name_of((int)state, job_names, COUNT(job_names));
}

const char *line_state_name(enum line_state state)
{
    return name_of((int)state, line_names, COUNT(line_names));
}

enum job_state job_state_from(int number, const char *name)
{
    return (enum job_state)number_of(number, name, job_names, COUNT(job_names));
}

enum line_state line_state_from(int number, const char *name)
{
    return (enum line_state)number_of(number, name, line_names, COUNT(line_names));
}

bool job_state_has_ended(enum job_state state)
{
    return state >= JOB_STATE_FINISHED;
}
