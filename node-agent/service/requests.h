/*
 * requests.h - what each request does. A handler answers its connection at once or leaves that to later.
 */
#ifndef BELAY_NODE_AGENT_SERVICE_REQUESTS_H
#define BELAY_NODE_AGENT_SERVICE_REQUESTS_H

#include "common/wire/belay.pb-c.h"
#include "node-agent/job/agent.h"

/* Of ranks (requests.c). */
void take_rank_hello(struct agent *agent, struct connection *connection, const Belay__Wire__RankHello *hello);
void take_share_get(struct agent *agent, struct connection *connection, const Belay__Wire__ShareGet *get);

/* Of the arbiter (arbiter.c). */
void take_job_open(struct agent *agent, struct connection *connection, const Belay__Wire__JobOpen *open);
void take_folder_query(struct connection *connection, const Belay__Wire__FolderQuery *query);
void take_inquire(struct agent *agent, struct connection *connection, const Belay__Wire__Inquire *inquire);
void take_epoch_start(struct agent *agent, struct connection *connection,
                      const Belay__Wire__EpochStart *request);
void take_epoch_placed(struct agent *agent, struct connection *connection,
                       const Belay__Wire__EpochPlaced *request);
void take_launch_ended(struct agent *agent, struct connection *connection,
                       const Belay__Wire__LaunchEnded *ended);
void take_loss_query(struct agent *agent, struct connection *connection, const Belay__Wire__LossQuery *query);
void take_end_answer(struct agent *agent, struct connection *connection,
                     const Belay__Wire__EndAnswer *answer);
void take_lease_open(struct agent *agent, struct connection *connection, const Belay__Wire__LeaseOpen *open);
void take_member_lost(struct agent *agent, struct connection *connection,
                      const Belay__Wire__MemberLost *lost);
void take_lease_grant(struct agent *agent, struct connection *connection,
                      const Belay__Wire__LeaseGrant *grant);
void take_job_close(struct agent *agent, struct connection *connection, const Belay__Wire__JobClose *end);

/* Of the arbiter, about lines as files (archive.c). */
void take_archive_take(struct agent *agent, struct connection *connection,
                       const Belay__Wire__ArchiveTake *order);
void take_archive_line(struct agent *agent, struct connection *connection,
                       const Belay__Wire__ArchiveLine *order);
void take_archive_kept(struct agent *agent, struct connection *connection,
                       const Belay__Wire__ArchiveKept *kept);

/* Of tools (tools.c). */
void take_checkpoint(struct agent *agent, struct connection *connection, const Belay__Wire__Checkpoint *wish);
void take_verify(struct agent *agent, struct connection *connection, const Belay__Wire__VerifyQuery *query);
void take_status(struct agent *agent, struct connection *connection, const Belay__Wire__StatusQuery *query);
void take_list(struct agent *agent, struct connection *connection);
void take_stop(struct agent *agent, struct connection *connection, const Belay__Wire__Stop *stop);
void take_clean(struct agent *agent, struct connection *connection, const Belay__Wire__Clean *clean);
void take_ping(struct agent *agent, struct connection *connection);

#endif
