#include "node-agent/line/line.h"

#include <errno.h>
#include <stdlib.h>

#include "node-agent/host/host.h"
#include "node-agent/link/loopback.h"
#include "node-agent/member/member.h"

#define NODE 0u /* the number of this one: there is no other */

struct line {
    struct job *job;
    struct line_host *host;
    struct line_member *member;
    struct link *link; /* the host's end, to the member; NULL: no epoch is open */
};

static int open_both(struct line *line, uint32_t epoch, uint32_t world, struct rank *const *ranks,
                     uint32_t count, struct belay_error *err);

struct line *line_create(struct job *job, struct belay_error *err)
{
    struct line *line = calloc(1, sizeof *line);
    if (!line) {
        belay_error_errno(err, "cannot prepare a job's lines");
        return NULL;
    }
    line->job = job;
    line->host = line_host_create(job, err);
    line->member = line->host ? line_member_create(job, err) : NULL;
    if (line->member)
        return line;
    line_destroy(line);
    return NULL;
}

void line_destroy(struct line *line)
{
    if (!line)
        return;
    line_close_epoch(line);
    line_member_destroy(line->member);
    line_host_destroy(line->host);
    free(line);
}

void line_open_epoch(struct line *line, uint32_t epoch, uint32_t world, struct rank *const *ranks,
                     uint32_t count)
{
    struct belay_error err;
    if (open_both(line, epoch, world, ranks, count, &err) == 0)
        return;
    belay_error_prefix(&err, "no line can be taken of this launch");
    line_host_refuse(line->host, err.text);
}

static int open_both(struct line *line, uint32_t epoch, uint32_t world, struct rank *const *ranks,
                     uint32_t count, struct belay_error *err)
{
    struct link *ends[2];
    uint32_t *placement = calloc(world + 1, sizeof *placement); /* all are with the only member */
    if (!placement || loopback_create(line->job->agent->loop, ends) < 0) {
        free(placement);
        return belay_error_set(err, ENOMEM, "out of memory");
    }
    const struct line_host_peer peers[] = {{.node = NODE, .link = ends[0]}};
    const struct line_host_epoch of_host = {.number = epoch,
                                            .node = NODE,
                                            .ranks = world,
                                            .committed_line = store_committed_line(line->job->store),
                                            .last_line = line->job->last_line,
                                            .peers = peers,
                                            .peer_count = 1};
    const struct line_member_epoch of_member = {.number = epoch,
                                                .node = NODE,
                                                .host_node = NODE,
                                                .world = world,
                                                .member_count = 1,
                                                .placement = placement,
                                                .link = ends[1],
                                                .ranks = ranks,
                                                .count = count};
    int rc = line_host_open_epoch(line->host, &of_host, err);
    if (rc < 0) {
        link_destroy(ends[1]);
    } else {
        line->link = ends[0];
        rc = line_member_open_epoch(line->member, &of_member, err);
    }
    free(placement);
    if (rc < 0)
        line_close_epoch(line);
    return rc;
}

void line_refuse(struct line *line, const char *reason)
{
    line_host_refuse(line->host, reason);
}

/* What both have said is heard before they part, so that a line's end is known on both sides. */
void line_close_epoch(struct line *line)
{
    if (line->link) {
        line_member_rank_lost(line->member, "the epoch has ended");
        loopback_flush(line->link);
        line_member_close_epoch(line->member);
    }
    line->link = NULL;
    if (line->host)
        line_host_close_epoch(line->host, store_committed_line(line->job->store));
}

void line_request(struct line *line, struct connection *connection)
{
    line_host_request(line->host, connection);
}

void line_forget_connection(struct line *line, struct connection *connection)
{
    line_host_forget_connection(line->host, connection);
}

void line_rank_changed(struct line *line, struct rank *rank)
{
    line_member_rank_changed(line->member, rank);
}

void line_rank_lost(struct line *line, const char *reason)
{
    line_member_rank_lost(line->member, reason);
}

void line_close(struct line *line)
{
    line_member_close(line->member);
}
