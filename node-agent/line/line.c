#include "node-agent/line/line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/log.h"
#include "node-agent/host/branch.h"
#include "node-agent/host/host.h"
#include "node-agent/line/checks.h"
#include "node-agent/line/ends.h"
#include "node-agent/link/loopback.h"
#include "node-agent/member/member.h"

struct line {
    struct job *job;
    struct line_host *host;
    struct line_member *member;
    struct links *links;  /* to other nodes; NULL: the job has none */
    struct fetch *fetch;  /* of the epoch's images, over these; NULL: none has been connected */
    uint64_t incarnation; /* that they were made with */
    uint8_t key_of[FABRIC_JOB_BYTES];
    struct fabric_epoch next;   /* that the arbiter is about to open; wiped when it is entered */
    int late;                   /* links of the epoch that have not joined in time */
    bool is_open;               /* an epoch is */
    struct connection *checker; /* waits for a comparison of what is held; NULL: nobody does */
    bool is_checking;           /* maybe for somebody who has gone */
    struct line_branch *branch; /* of the epoch; NULL: this node has no children in the tree */
    /* The ends of the links on this node: to the member, and between branch and host; NULL: there is none. */
    struct link *loopbacks[2];
};

static int open_both(struct line *line, uint32_t epoch, uint32_t world, struct rank *const *ranks,
                     uint32_t count, struct belay_error *err);
static void on_link(void *context, uint32_t node, enum remote_news news);
static void stop_loading(struct line *line);

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
    fetch_destroy(line->fetch);
    links_destroy(line->links);
    explicit_bzero(&line->next, sizeof line->next);
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

/* Takes the ends over that are the host's, and those of the branch. */
static int open_host(struct line *line, const struct epoch_start *start, uint32_t node,
                     const struct ends *ends, struct belay_error *err)
{
    const struct line_host_epoch of_host = {.number = start->epoch,
                                            .node = node,
                                            .ranks = start->rank_count,
                                            .committed_line = start->line,
                                            .last_line = line->job->last_line,
                                            .peers = ends->peers,
                                            .peer_count = ends->peer_count,
                                            .is_tree = ends->below != NULL};
    return line_host_open_epoch(line->host, &of_host, err);
}

static int open_branch(struct line *line, const struct epoch_start *start, uint32_t node,
                       const struct ends *ends, struct belay_error *err)
{
    const struct line_branch_epoch of_branch = {.number = start->epoch,
                                                .node = node,
                                                .parent = ends->parent,
                                                .place = ends->place,
                                                .members = start->members,
                                                .up = ends->up,
                                                .below = ends->below};
    line->branch = line_branch_create(line->job, &of_branch, err);
    return line->branch ? 0 : -1;
}

static int open_both(struct line *line, uint32_t epoch, uint32_t world, struct rank *const *ranks,
                     uint32_t count, struct belay_error *err)
{
    const struct epoch_start *start = membership_record(line->job->membership);
    uint32_t node = line->job->config->node;
    struct ends ends;
    if (!start || start->epoch != epoch || start->rank_count != world)
        return belay_error_set(err, EINVAL, "its arbiter has not placed its ranks");
    const struct tree tree = job_tree(line->job, start);
    if (ends_make(&ends, line->job->agent->loop, line->links, &tree, start, node, err) < 0)
        return -1;
    const struct line_member_epoch of_member = {.number = epoch,
                                                .node = node,
                                                .host_node = ends.below ? node : ends.parent,
                                                .world = world,
                                                .member_count = start->member_count,
                                                .placement = start->placement,
                                                .members = start->members,
                                                .remotes = line->links ? links_remotes(line->links) : NULL,
                                                .scheme = job_scheme(line->job),
                                                .code = job_code(line->job),
                                                .link = ends.host,
                                                .ranks = ranks,
                                                .count = count,
                                                .loads = line->fetch ? fetch_loads(line->fetch) : NULL};
    line->is_open = true;
    line->loopbacks[0] = ends.loopbacks[0];
    line->loopbacks[1] = ends.loopbacks[1];
    int rc = ends.below ? open_branch(line, start, node, &ends, err) : 0;
    if (ends.peers && rc == 0)
        rc = open_host(line, start, node, &ends, err);
    else if (ends.peers)
        ends_drop_peers(&ends);
    ends_release(&ends);
    if (rc == 0) {
        rc = line_member_open_epoch(line->member, &of_member, err);
    } else {
        link_destroy(of_member.link);
        line->loopbacks[0] = line->loopbacks[1] = NULL;
    }
    if (rc < 0)
        line_close_epoch(line);
    return rc;
}

/* The arbiter judges whether the node is lost. A link that is lost stays so for the epoch. */
static void on_link(void *context, uint32_t node, enum remote_news news)
{
    static const enum link_state states[] = {[REMOTE_LATE] = LINK_STATE_LATE,
                                             [REMOTE_JOINED] = LINK_STATE_JOINED,
                                             [REMOTE_SILENT] = LINK_STATE_SILENT};
    struct line *line = context;
    struct job *job = line->job;
    const struct epoch_start *start = membership_record(job->membership);
    Belay__Wire__Event event = BELAY__WIRE__EVENT__INIT;
    Belay__Wire__LinkNews link = BELAY__WIRE__LINK_NEWS__INIT;
    line->late += news == REMOTE_LATE ? 1 : news == REMOTE_JOINED ? -1 : 0;
    if (news == REMOTE_LATE)
        snprintf(job->trouble, sizeof job->trouble, "node %u has not joined: no line is taken meanwhile",
                 node);
    else if (news == REMOTE_SILENT)
        snprintf(job->trouble, sizeof job->trouble, "node %u is silent: no line is taken", node);
    else if (line->late == 0)
        job->trouble[0] = '\0';
    log_warning("job \"%s\": the link to node %u %s", job->name, node,
                news == REMOTE_LATE     ? "has not joined yet"
                : news == REMOTE_JOINED ? "has joined late"
                                        : "is silent: it is lost for this epoch");
    link.epoch = start ? start->epoch : 0;
    link.node = node;
    link.state = (Belay__Wire__LinkState)states[news];
    event.link = &link;
    job_tell(job, &event);
}

static void drop_fetch(struct line *line)
{
    fetch_destroy(line->fetch);
    line->fetch = NULL;
}

int line_listen(struct line *line, uint64_t incarnation, const struct links_key *key, const char *interface,
                struct belay_error *err)
{
    line->next = key->next;
    stop_loading(line);
    if (line->links && line->incarnation == incarnation && !memcmp(line->key_of, key->job, sizeof key->job)) {
        links_expect(line->links);
        return 0;
    }
    drop_fetch(line);
    links_destroy(line->links);
    const struct links_config config = {.node = line->job->config->node,
                                        .incarnation = incarnation,
                                        .key = key,
                                        .interface = interface,
                                        .provider = line->job->config->settings->fabric_provider,
                                        .is_encrypted = line->job->config->settings->encrypt};
    line->links = links_create(line->job->agent->loop, &config, on_link, line, err);
    line->incarnation = incarnation;
    memcpy(line->key_of, key->job, sizeof line->key_of);
    return line->links ? 0 : -1;
}

void line_address(const struct line *line, struct fabric_address *address)
{
    *address = (struct fabric_address){.count = 0};
    if (line->links)
        links_address(line->links, address);
}

int line_connect(struct line *line, const struct epoch_start *start, const struct fabric_address *addresses,
                 struct belay_error *err)
{
    if (!line->links)
        return belay_error_set(err, EINVAL, "its arbiter has given no key for several nodes");
    if (line->next.number != start->epoch)
        return belay_error_set(err, EINVAL, "its arbiter has given no secret for epoch %u", start->epoch);
    line->job->trouble[0] = '\0';
    line->late = 0;
    drop_fetch(line);
    const struct tree tree = job_tree(line->job, start);
    int rc = links_connect(line->links, job_scheme(line->job), job_code(line->job), &tree, start, &line->next,
                           addresses, err);
    explicit_bzero(&line->next, sizeof line->next);
    if (rc < 0)
        return -1;
    line->fetch = fetch_create(line->job, links_remotes(line->links), start, err);
    return line->fetch ? 0 : -1;
}

int line_fetch(struct line *line, fetch_done_f *done, loads_whole_f *whole, void *context,
               struct belay_error *err)
{
    if (!line->fetch)
        return belay_error_set(err, EINVAL, "its images are on other nodes, and there are no links to them");
    loads_tell(fetch_loads(line->fetch), whole);
    return fetch_start(line->fetch, done, context, err);
}

void line_lose_member(struct line *line, uint32_t node)
{
    if (line->links)
        remotes_lose(links_remotes(line->links), node);
}

struct load *line_load(const struct line *line, uint32_t rank)
{
    return line->fetch ? loads_find(fetch_loads(line->fetch), rank) : NULL;
}

bool line_may_begin(const struct line *line)
{
    bool is_loading = line->fetch && loads_count(fetch_loads(line->fetch)) > 0;
    return !is_loading || line_member_can_begin_early(line->job);
}

void line_image_came(struct line *line)
{
    line_member_image_came(line->member);
}

/* The next epoch's verdict is on what is here by then. */
static void stop_loading(struct line *line)
{
    if (line->fetch)
        loads_stop(fetch_loads(line->fetch));
}

void line_refuse(struct line *line, const char *reason)
{
    line_host_refuse(line->host, reason);
}

/* What the member has said goes up to the host, and what follows from it comes down. */
static void flush(const struct line *line)
{
    static const int order[] = {0, 1, 0};
    for (int i = 0; i < 3; i++)
        if (line->loopbacks[order[i]])
            loopback_flush(line->loopbacks[order[i]]);
}

/* What both have said is heard before they part, so that a line's end is known on both sides. */
void line_close_epoch(struct line *line)
{
    stop_loading(line);
    if (line->is_open) {
        line_member_rank_lost(line->member, "the epoch has ended");
        flush(line);
        line_member_close_epoch(line->member);
    }
    line->is_open = false;
    line->loopbacks[0] = line->loopbacks[1] = NULL;
    line_branch_destroy(line->branch);
    line->branch = NULL;
    if (line->host)
        line_host_close_epoch(line->host, store_committed_line(line->job->store));
}

/* Between two epochs nobody knows where the next coordinator is: the request waits here, if it may be here.
 */
void line_request(struct line *line, struct connection *connection)
{
    const struct epoch_start *start = membership_record(line->job->membership);
    uint32_t host = start ? start->members[start->coordinator] : line->job->config->node;
    if (job_is_spare(line->job)) {
        connection_reply_error(connection, EREMOTE, "the coordinator of the lines is on another node");
        return;
    }
    if (line->job->epoch && host != line->job->config->node) {
        char text[64];
        snprintf(text, sizeof text, "the coordinator of the lines is on node %u", host);
        connection_reply_error(connection, EREMOTE, text);
        return;
    }
    line_host_request(line->host, connection);
}

static void on_verified(void *context, const struct verified *list, uint32_t count,
                        const struct belay_error *err)
{
    struct line *line = context;
    struct connection *checker = line->checker;
    line->checker = NULL;
    line->is_checking = false;
    if (checker)
        checks_answer(checker, line->job, list, count, err);
}

void line_verify(struct line *line, struct connection *connection)
{
    struct belay_error err;
    if (line->is_checking) {
        connection_reply_error(connection, EBUSY, "the images of this node are being compared already");
        return;
    }
    line->checker = connection;
    line->is_checking = true;
    if (line_member_verify(line->member, on_verified, line, &err) == 0)
        return;
    line->checker = NULL;
    line->is_checking = false;
    connection_reply_error(connection, err.code, err.text);
}

void line_forget_connection(struct line *line, struct connection *connection)
{
    line_host_forget_connection(line->host, connection);
    if (line->checker == connection)
        line->checker = NULL;
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
