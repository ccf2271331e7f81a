/*
 * Files of jobs that have ended, as `belay list` and `belay status` read and show them. What the first byte
 * says: whether the file is one of the job that is asked for.
 */
#include <jansson.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/render.h"
#include "common/util/tree.h"
#include "common/wire/status_file.h"
#include "tests/fuzz/target.h"

#define JOB "job"

static char rundir[] = "/tmp/belay-fuzz-XXXXXX";
static FILE *nowhere;

static void remove_rundir(void)
{
    tree_remove(rundir);
}

static void begin(void)
{
    char folder[PATH_MAX];
    must(mkdtemp(rundir) && (nowhere = fopen("/dev/null", "w")));
    atexit(remove_rundir);
    snprintf(folder, sizeof folder, "%s/jobs", rundir);
    must(mkdir(folder, 0700) == 0);
}

static void write_file(const uint8_t *bytes, size_t count)
{
    char path[PATH_MAX];
    must(status_file_path(path, sizeof path, rundir, JOB) == 0);
    FILE *file = fopen(path, "we");
    must(file && fwrite(bytes, 1, count, file) == count && fclose(file) == 0 && chmod(path, 0600) == 0);
}

static void show(const Belay__Wire__JobStatus *status)
{
    json_t *json = render_job_json(status);
    char *text = json ? json_dumps(json, JSON_ENSURE_ASCII) : NULL;
    must(text);
    json_t *again = json_loads(text, 0, NULL);
    must(again && json_is_object(again));
    json_decref(again);
    free(text);
    json_decref(json);
    render_job_text(nowhere, status);
    render_list_header(nowhere);
    render_list_row(nowhere, status);
    for (size_t i = 0; i < status->n_lines; i++)
        render_line_text(nowhere, status->lines[i]);
}

static int visit(void *context, const char *job)
{
    unsigned *count = context;
    must(!strcmp(job, JOB));
    return ++*count, 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const uint8_t named[] = {0x0a, 3, 'j', 'o',
                                    'b'}; /* a field that comes again takes the former's place */
    unsigned found = 0;
    if (!nowhere)
        begin();
    if (count == 0)
        return 0;
    uint8_t *file = malloc(count + sizeof named);
    must(file);
    memcpy(file, bytes + 1, count - 1);
    if (bytes[0] % 2)
        memcpy(file + count - 1, named, sizeof named);
    write_file(file, bytes[0] % 2 ? count - 1 + sizeof named : count - 1);
    free(file);
    must(status_file_each(rundir, visit, &found) == 0 && found == 1);
    Belay__Wire__JobStatus *status = status_file_read(rundir, JOB);
    if (!status)
        return 0;
    must(!strcmp(status->job, JOB));
    show(status);
    belay__wire__job_status__free_unpacked(status, NULL);
    return 0;
}
