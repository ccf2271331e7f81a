#include "cmd/records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/states.h"
#include "common/wire/status_file.h"

/* Replace a string of an unpacked message, which owns it. Keeps the old one if memory is short. */
static void replace_text(char **field, const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        return;
    if (*field != (char *)protobuf_c_empty_string)
        free(*field);
    *field = copy;
}

/* What errno says of a job's record. */
static void tell(const char *verb, const char *rundir, const char *job, struct belay_error *err)
{
    if (errno == ENOENT)
        belay_error_set(err, ENOENT, "there is no job %s in %s", job, rundir);
    else if (errno == EBADMSG)
        belay_error_set(err, EBADMSG, "the record of %s in %s is damaged", job, rundir);
    else
        belay_error_errno(err, "cannot %s the record of %s in %s", verb, job, rundir);
}

Belay__Wire__JobStatus *record_read(const char *rundir, const char *job, struct belay_error *err)
{
    Belay__Wire__JobStatus *status = status_file_read(rundir, job);
    if (!status) {
        tell("read", rundir, job, err);
    } else if (!job_state_has_ended(job_state_from(status->job_state, status->state))) {
        status->job_state = BELAY__WIRE__JOB_STATE__JOB_STATE_LOST;
        replace_text(&status->message, "its agent has gone");
    }
    return status;
}

int record_remove(const char *rundir, const char *job, struct belay_error *err)
{
    if (status_file_remove(rundir, job) == 0)
        return 0;
    tell("remove", rundir, job, err);
    return -1;
}
