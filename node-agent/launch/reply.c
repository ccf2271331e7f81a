#include "node-agent/launch/reply.h"

#include <errno.h>
#include <stdlib.h>

#include "common/conf/conf.h"
#include "node-agent/shared/renew.h"

/* The ids of System V objects that are not the kernel's any more. NULL: none. */
static Belay__Wire__KernelId **list_ids(const struct job *job, size_t *count)
{
    struct renewed_id *ids = job->renewal ? calloc(RENEWED_IDS_MAX, sizeof *ids) : NULL;
    size_t found = ids ? renewal_ids(job->renewal, ids, RENEWED_IDS_MAX) : 0;
    found = found < RENEWED_IDS_MAX ? found : RENEWED_IDS_MAX;
    Belay__Wire__KernelId **list = found ? calloc(found, sizeof *list + sizeof **list) : NULL;
    Belay__Wire__KernelId *items = list ? (Belay__Wire__KernelId *)(void *)(list + found) : NULL;
    for (size_t i = 0; list && i < found; i++) {
        items[i] = (Belay__Wire__KernelId)BELAY__WIRE__KERNEL_ID__INIT;
        items[i].kind = renewal_wire_kind(ids[i].kind);
        items[i].id = ids[i].id;
        items[i].kernel_id = ids[i].kernel_id;
        list[i] = &items[i];
    }
    free(ids);
    *count = list ? found : 0;
    return list;
}

void reply_welcome(struct connection *connection, const struct job *job, uint32_t epoch,
                   uint64_t restore_line, const int *fds, unsigned fd_count)
{
    Belay__Wire__Reply reply = BELAY__WIRE__REPLY__INIT;
    Belay__Wire__RankWelcome welcome = BELAY__WIRE__RANK_WELCOME__INIT;
    const Belay__Wire__JobSettings *settings = job->config->settings;
    welcome.job = (char *)job->name;
    welcome.epoch = epoch;
    welcome.restore_line = restore_line;
    welcome.is_output_forwarded = job->is_output_forwarded;
    welcome.has_parcel = fd_count > 5;
    welcome.undo_folder = (char *)job->undo.path;
    welcome.undo_device = job->undo.id.device;
    welcome.undo_inode = job->undo.id.inode;
    welcome.undo_birth_ns = job->undo.id.birth_ns;
    welcome.undo_limit_bytes =
        settings->undo_limit_bytes ? settings->undo_limit_bytes : conf_default(CONF_UNDO_LIMIT);
    welcome.undo_total_bytes = settings->undo_total_bytes;
    if (job->config->node_count > 1 || settings->archive[0])
        welcome.file_limit_bytes =
            settings->file_limit_bytes ? settings->file_limit_bytes : conf_default(CONF_FILE_LIMIT);
    welcome.common_devices = job->common_devices;
    welcome.n_common_devices = job->common_count;
    welcome.kernel_ids = restore_line ? list_ids(job, &welcome.n_kernel_ids) : NULL;
    reply.body_case = BELAY__WIRE__REPLY__BODY_RANK_WELCOME;
    reply.rank_welcome = &welcome;
    connection_reply(connection, &reply, fds, fd_count);
    free(welcome.kernel_ids);
}

void reply_share(struct connection *connection, int kernel_id, int fd)
{
    Belay__Wire__Reply reply = BELAY__WIRE__REPLY__INIT;
    Belay__Wire__ShareGot got = BELAY__WIRE__SHARE_GOT__INIT;
    if (kernel_id < 0 && fd < 0) {
        connection_reply_error(connection, ENOENT, "what the rank shared is not held by the agent");
        return;
    }
    got.kernel_id = kernel_id;
    reply.body_case = BELAY__WIRE__REPLY__BODY_SHARE_GOT;
    reply.share_got = &got;
    connection_reply(connection, &reply, &fd, fd >= 0 ? 1 : 0);
}

static void fill_end(Belay__Wire__RankEnd *end, const struct verdict_rank *rank)
{
    *end = (Belay__Wire__RankEnd)BELAY__WIRE__RANK_END__INIT;
    end->rank = rank->rank;
    end->pid = (uint32_t)rank->pid;
    end->kind = rank->exit.kind;
    end->status = rank->exit.status;
    end->announced_ns = rank->exit.announced_ns;
    end->seen_ns = rank->exit.seen_ns;
    end->is_killed_by_us = rank->exit.is_killed_by_us;
    end->is_over_loss = rank->exit.is_over_loss;
    end->is_unanswered = rank->exit.is_unanswered;
    end->signal = rank->exit.signal;
}

void reply_facts(struct connection *connection, const struct launch_facts *facts)
{
    Belay__Wire__Reply reply = BELAY__WIRE__REPLY__INIT;
    Belay__Wire__LaunchFacts message = BELAY__WIRE__LAUNCH_FACTS__INIT;
    size_t count = facts->count ? facts->count : 1;
    Belay__Wire__RankEnd **list = calloc(count, sizeof *list + sizeof **list);
    Belay__Wire__RankEnd *ends = (Belay__Wire__RankEnd *)(void *)(list + count);
    if (!list) {
        connection_reply_error(connection, ENOMEM, "no memory to tell how the ranks have ended");
        return;
    }
    for (uint32_t i = 0; i < facts->count; i++) {
        fill_end(&ends[i], &facts->ranks[i]);
        list[i] = &ends[i];
    }
    message.ranks = list;
    message.n_ranks = facts->count;
    message.is_stopped = facts->is_stopped;
    message.refused = (char *)facts->refused; /* only read, as the next */
    message.turned_away = (char *)facts->turned_away;
    message.newest_line = facts->newest_line;
    reply.body_case = BELAY__WIRE__REPLY__BODY_LAUNCH_FACTS;
    reply.launch_facts = &message;
    connection_reply(connection, &reply, NULL, 0);
    free(list);
}
