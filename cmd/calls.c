#include "cmd/calls.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cmd/options.h"
#include "common/wire/client.h"
#include "common/wire/descriptor.h"
#include "common/wire/job_name.h"
#include "common/wire/streams.h"

/* protobuf-c wants its strings writable but only reads those of a message that is sent. */
static char *borrow(const char *text)
{
    return text ? (char *)text : (char *)protobuf_c_empty_string;
}

/* What an agent has answered, if it is of the expected kind; NULL with err. Accepts NULL. */
static Belay__Wire__Reply *check_kind(Belay__Wire__Reply *reply, Belay__Wire__Reply__BodyCase expected,
                                      struct belay_error *err)
{
    if (!reply || reply->body_case == expected)
        return reply;
    calls_free(reply);
    belay_error_set(err, EPROTO, "the agent gave an unexpected answer (%d); is it another version of Belay?",
                    (int)expected);
    return NULL;
}

static Belay__Wire__Reply *receive(const struct caller *caller, Belay__Wire__Reply__BodyCase expected,
                                   struct belay_error *err)
{
    return check_kind(agent_receive(caller->sock, NULL, NULL, caller->on_event, caller->context, err),
                      expected, err);
}

static Belay__Wire__Reply *call(const struct caller *caller, const Belay__Wire__Request *request,
                                Belay__Wire__Reply__BodyCase expected, struct belay_error *err)
{
    return check_kind(agent_call(caller->sock, request, NULL, NULL, caller->on_event, caller->context, err),
                      expected, err);
}

/* What it says is run: a launch line as a person types it, in a folder that can be changed to. */
static bool is_launch(const Belay__Wire__JobOpened *opened)
{
    bool is_line = opened->n_argv == 0 || opened->argv[0][0];
    return is_line && (!opened->cwd[0] || opened->cwd[0] == '/');
}

static int check_opened(const Belay__Wire__JobOpen *open, const Belay__Wire__JobOpened *opened,
                        const int fds[2], unsigned fd_count, struct belay_error *err)
{
    bool is_named = open->job[0] ? !strcmp(open->job, opened->job) : !job_name_check(opened->job, NULL);
    if (fd_count != 2 || !is_named || !is_launch(opened))
        return belay_error_set(err, EPROTO,
                               "the agent gave an invalid answer; is it another version of Belay?");
    return descriptor_check_memory(fds[0], STREAMS_BYTES, "the memory of standard streams", err) ||
                   descriptor_check_kind(fds[1], DESCRIPTOR_EVENT, "what wakes their reader", err)
               ? -1
               : 0;
}

Belay__Wire__Reply *call_job_open(const struct caller *caller, Belay__Wire__JobOpen *open, int fds[2],
                                  struct belay_error *err)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    request.body_case = BELAY__WIRE__REQUEST__BODY_JOB_OPEN;
    request.job_open = open;
    unsigned count = 2;
    fds[0] = fds[1] = -1;
    Belay__Wire__Reply *reply =
        check_kind(agent_call(caller->sock, &request, fds, &count, caller->on_event, caller->context, err),
                   BELAY__WIRE__REPLY__BODY_JOB_OPENED, err);
    if (reply && check_opened(open, reply->job_opened, fds, count, err) == 0)
        return reply;
    calls_free(reply);
    for (unsigned i = 0; i < 2; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
    return NULL;
}

int send_inquire(const struct caller *caller, Belay__Wire__Inquire *inquire, const struct job_secret *secret,
                 struct belay_error *err)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    if (secret) {
        inquire->fabric_key =
            (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)secret->key, .len = sizeof secret->key};
        inquire->epoch_secret = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)secret->epoch_secret,
                                                      .len = sizeof secret->epoch_secret};
        inquire->fabric_job =
            (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)secret->job, .len = sizeof secret->job};
    }
    request.body_case = BELAY__WIRE__REQUEST__BODY_INQUIRE;
    request.inquire = inquire;
    return agent_send(caller->sock, &request, err);
}

Belay__Wire__Reply *receive_node_state(const struct caller *caller, struct belay_error *err)
{
    return receive(caller, BELAY__WIRE__REPLY__BODY_NODE_STATE, err);
}

int send_epoch_start(const struct caller *caller, Belay__Wire__EpochStart *start, struct belay_error *err)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    request.body_case = BELAY__WIRE__REQUEST__BODY_EPOCH_START;
    request.epoch_start = start;
    return agent_send(caller->sock, &request, err);
}

Belay__Wire__Reply *receive_epoch_entered(const struct caller *caller, struct belay_error *err)
{
    return receive(caller, BELAY__WIRE__REPLY__BODY_EPOCH_ENTERED, err);
}

int send_archive_take(const struct caller *caller, Belay__Wire__ArchiveTake *order, struct belay_error *err)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    request.body_case = BELAY__WIRE__REQUEST__BODY_ARCHIVE_TAKE;
    request.archive_take = order;
    return agent_send(caller->sock, &request, err);
}

Belay__Wire__Reply *receive_archive_taken(const struct caller *caller, struct belay_error *err)
{
    return receive(caller, BELAY__WIRE__REPLY__BODY_ARCHIVE_TAKEN, err);
}

Belay__Wire__Reply *call_archive_line(const struct caller *caller, const char *job, struct belay_error *err)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    Belay__Wire__ArchiveLine body = BELAY__WIRE__ARCHIVE_LINE__INIT;
    body.job = borrow(job);
    request.body_case = BELAY__WIRE__REQUEST__BODY_ARCHIVE_LINE;
    request.archive_line = &body;
    return call(caller, &request, BELAY__WIRE__REPLY__BODY_DONE, err);
}

Belay__Wire__Reply *call_archive_kept(const struct caller *caller, Belay__Wire__ArchiveKept *kept,
                                      struct belay_error *err)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    request.body_case = BELAY__WIRE__REQUEST__BODY_ARCHIVE_KEPT;
    request.archive_kept = kept;
    return call(caller, &request, BELAY__WIRE__REPLY__BODY_DONE, err);
}

Belay__Wire__Reply *call_member_lost(const struct caller *caller, const char *job, uint32_t epoch,
                                     uint32_t node, struct belay_error *err)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    Belay__Wire__MemberLost body = BELAY__WIRE__MEMBER_LOST__INIT;
    body.job = borrow(job);
    body.epoch = epoch;
    body.node = node;
    request.body_case = BELAY__WIRE__REQUEST__BODY_MEMBER_LOST;
    request.member_lost = &body;
    return call(caller, &request, BELAY__WIRE__REPLY__BODY_DONE, err);
}

Belay__Wire__Reply *call_epoch_placed(const struct caller *caller, Belay__Wire__EpochRecord *start,
                                      struct belay_error *err)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    Belay__Wire__EpochPlaced body = BELAY__WIRE__EPOCH_PLACED__INIT;
    body.start = start;
    request.body_case = BELAY__WIRE__REQUEST__BODY_EPOCH_PLACED;
    request.epoch_placed = &body;
    return call(caller, &request, BELAY__WIRE__REPLY__BODY_DONE, err);
}

Belay__Wire__Reply *call_loss_query(const struct caller *caller, const char *job, uint32_t epoch,
                                    struct belay_error *err)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    Belay__Wire__LossQuery body = BELAY__WIRE__LOSS_QUERY__INIT;
    body.job = borrow(job);
    body.epoch = epoch;
    request.body_case = BELAY__WIRE__REQUEST__BODY_LOSS_QUERY;
    request.loss_query = &body;
    return call(caller, &request, BELAY__WIRE__REPLY__BODY_LOSS_FACTS, err);
}

Belay__Wire__Reply *call_end_answer(const struct caller *caller, const char *job, uint32_t epoch,
                                    bool has_loss, struct belay_error *err)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    Belay__Wire__EndAnswer body = BELAY__WIRE__END_ANSWER__INIT;
    body.job = borrow(job);
    body.epoch = epoch;
    body.has_loss = has_loss;
    request.body_case = BELAY__WIRE__REQUEST__BODY_END_ANSWER;
    request.end_answer = &body;
    return call(caller, &request, BELAY__WIRE__REPLY__BODY_DONE, err);
}

Belay__Wire__Reply *call_launch_ended(const struct caller *caller, const char *job, struct belay_error *err)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    Belay__Wire__LaunchEnded body = BELAY__WIRE__LAUNCH_ENDED__INIT;
    body.job = borrow(job);
    request.body_case = BELAY__WIRE__REQUEST__BODY_LAUNCH_ENDED;
    request.launch_ended = &body;
    return call(caller, &request, BELAY__WIRE__REPLY__BODY_LAUNCH_FACTS, err);
}

Belay__Wire__Reply *call_job_close(const struct caller *caller, const char *job, enum job_state state,
                                   bool keep_images, int exit_status, const char *message,
                                   struct belay_error *err)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    Belay__Wire__JobClose body = BELAY__WIRE__JOB_CLOSE__INIT;
    body.job = borrow(job);
    body.job_state = (Belay__Wire__JobState)state;
    body.final_state = borrow(job_state_name(state));
    body.keep_images = keep_images;
    body.exit_status = exit_status;
    body.message = borrow(message);
    request.body_case = BELAY__WIRE__REQUEST__BODY_JOB_CLOSE;
    request.job_close = &body;
    return call(caller, &request, BELAY__WIRE__REPLY__BODY_DONE, err);
}

Belay__Wire__Reply *call_checkpoint(const struct caller *caller, const char *job, struct belay_error *err)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    Belay__Wire__Checkpoint body = BELAY__WIRE__CHECKPOINT__INIT;
    body.job = borrow(job);
    request.body_case = BELAY__WIRE__REQUEST__BODY_CHECKPOINT;
    request.checkpoint = &body;
    return call(caller, &request, BELAY__WIRE__REPLY__BODY_LINE_DONE, err);
}

Belay__Wire__Reply *call_verify(const struct caller *caller, const char *job, struct belay_error *err)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    Belay__Wire__VerifyQuery body = BELAY__WIRE__VERIFY_QUERY__INIT;
    body.job = borrow(job);
    request.body_case = BELAY__WIRE__REQUEST__BODY_VERIFY;
    request.verify = &body;
    return call(caller, &request, BELAY__WIRE__REPLY__BODY_VERIFIED, err);
}

Belay__Wire__Reply *call_status(const struct caller *caller, const char *job, struct belay_error *err)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    Belay__Wire__StatusQuery body = BELAY__WIRE__STATUS_QUERY__INIT;
    body.job = borrow(job);
    request.body_case = BELAY__WIRE__REQUEST__BODY_STATUS;
    request.status = &body;
    return call(caller, &request, BELAY__WIRE__REPLY__BODY_STATUS, err);
}

Belay__Wire__Reply *call_list(const struct caller *caller, struct belay_error *err)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    Belay__Wire__ListQuery body = BELAY__WIRE__LIST_QUERY__INIT;
    request.body_case = BELAY__WIRE__REQUEST__BODY_LIST;
    request.list = &body;
    return call(caller, &request, BELAY__WIRE__REPLY__BODY_LIST, err);
}

Belay__Wire__Reply *call_stop(const struct caller *caller, const char *job, struct belay_error *err)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    Belay__Wire__Stop body = BELAY__WIRE__STOP__INIT;
    body.job = borrow(job);
    request.body_case = BELAY__WIRE__REQUEST__BODY_STOP;
    request.stop = &body;
    return call(caller, &request, BELAY__WIRE__REPLY__BODY_DONE, err);
}

Belay__Wire__Reply *call_clean(const struct caller *caller, const char *job, struct belay_error *err)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    Belay__Wire__Clean body = BELAY__WIRE__CLEAN__INIT;
    body.job = borrow(job);
    request.body_case = BELAY__WIRE__REQUEST__BODY_CLEAN;
    request.clean = &body;
    return call(caller, &request, BELAY__WIRE__REPLY__BODY_DONE, err);
}

Belay__Wire__Reply *call_folder_query(const struct caller *caller, Belay__Wire__FolderQuery *query,
                                      struct belay_error *err)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    request.body_case = BELAY__WIRE__REQUEST__BODY_FOLDER_QUERY;
    request.folder_query = query;
    return call(caller, &request, BELAY__WIRE__REPLY__BODY_DONE, err);
}

Belay__Wire__Reply *call_ping(const struct caller *caller, struct belay_error *err)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    Belay__Wire__Ping body = BELAY__WIRE__PING__INIT;
    request.body_case = BELAY__WIRE__REQUEST__BODY_PING;
    request.ping = &body;
    return call(caller, &request, BELAY__WIRE__REPLY__BODY_PONG, err);
}

void send_fence(int sock)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    Belay__Wire__Fence body = BELAY__WIRE__FENCE__INIT;
    struct belay_error err;
    request.body_case = BELAY__WIRE__REQUEST__BODY_FENCE;
    request.fence = &body;
    agent_send(sock, &request, &err);
}

void calls_free(Belay__Wire__Reply *reply)
{
    if (reply)
        belay__wire__reply__free_unpacked(reply, NULL);
}
