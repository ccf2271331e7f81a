#include "cmd/job_view.h"

#include "cmd/exit_codes.h"
#include "cmd/members.h"
#include "cmd/options.h"
#include "cmd/tool.h"
#include "common/util/log.h"

/* What this host has of a job that is run from another one; NULL: nothing. */
static Belay__Wire__JobStatus *find_as_guest(const struct tool *tool, const char *job)
{
    struct tool guest;
    struct belay_error ignored;
    if (tool_open_guest(tool, &guest) < 0)
        return NULL;
    Belay__Wire__JobStatus *found = tool_find_job(&guest, job, &ignored);
    tool_close(&guest);
    return found;
}

int job_view_once(const char *name, bool is_json, job_view_f *show)
{
    struct tool tool;
    struct belay_error err = {0};
    int code;
    if (tool_open(&tool))
        return EXIT_NO_AGENT;
    tool_turn(&tool, name);
    Belay__Wire__JobStatus *job = tool_find_job(&tool, name, &err);
    if (job)
        members_add_status(&tool, job);
    else
        job = find_as_guest(&tool, name);
    if (job) {
        code = show(job, is_json);
    } else {
        log_error("%s", err.text);
        code = tool_exit_code(&err);
    }
    job_status_free(job);
    tool_close(&tool);
    return code;
}

int job_view(const struct argp *argp, int argc, char **argv, job_view_f *show)
{
    struct tool_options options;
    if (tool_options_parse(argp, argc, argv, false, &options))
        return EXIT_USAGE;
    return job_view_once(options.job, options.is_json, show);
}
