#include "node-agent/launch/match.h"

#include <errno.h>
#include <string.h>

#include "common/image/image.h"
#include "node-agent/line/line.h"

static int check_image(const struct job *job, const struct image_view *view, uint64_t line,
                       const Belay__Wire__RankHello *hello, struct belay_error *err);

int match_check(const struct job *job, uint64_t line, const Belay__Wire__RankHello *hello,
                struct belay_error *err)
{
    struct image_view view;
    if (line == 0)
        return 0;
    const struct load *load = line_load(job->line, hello->rank);
    uint32_t ranks = load ? membership_record(job->membership)->rank_count : store_ranks(job->store);
    if (ranks != hello->ranks)
        return belay_error_set(
            err, EPERM,
            "line %llu was taken with %u ranks, this launch has %u: 'belay restart %s -- mpirun -n "
            "%u ...' with the same number goes on, 'belay clean %s' gives the job up",
            (unsigned long long)line, ranks, hello->ranks, job->name, ranks, job->name);
    int fd = load ? load_fd(load) : store_image(job->store, hello->rank);
    if (fd < 0)
        return belay_error_set(err, EIO, "the image of rank %u is missing", hello->rank);
    if (image_load(fd, &view, err) < 0)
        return -1;
    int rc = check_image(job, &view, line, hello, err);
    image_unload(&view);
    return rc;
}

static int check_image(const struct job *job, const struct image_view *view, uint64_t line,
                       const Belay__Wire__RankHello *hello, struct belay_error *err)
{
    const struct image_header *header = view->header;
    const char *program = image_string(view, header->program);
    bool is_same = !memcmp(header->identity, hello->identity.data, sizeof header->identity);
    if (header->line != line || header->rank != hello->rank || header->ranks != hello->ranks)
        return belay_error_set(err, EIO, "the image of rank %u is not of line %llu", hello->rank,
                               (unsigned long long)line);
    if (!is_same && strcmp(program, hello->program))
        return belay_error_set(
            err, EPERM,
            "line %llu was taken of %.100s, this is %.160s: restart the same program, or give the "
            "job up ('belay clean %s')",
            (unsigned long long)line, program, hello->program, job->name);
    if (!is_same)
        return belay_error_set(
            err, EPERM,
            "line %llu was taken of another build of the program or its libc than this: %.160s; "
            "restart with the same, or give the job up ('belay clean %s')",
            (unsigned long long)line, hello->identity_text[0] ? hello->identity_text : hello->program,
            job->name);
    if (header->layout_version != hello->layout_version)
        return belay_error_set(
            err, EPERM,
            "line %llu was taken by another version of Belay: restart with that version, or give "
            "the job up ('belay clean %s')",
            (unsigned long long)line, job->name);
    return 0;
}
