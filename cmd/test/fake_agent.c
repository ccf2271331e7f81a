#include "cmd/test/fake_agent.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/wire/belay.pb-c.h"
#include "common/wire/control.h"
#include "common/wire/descriptor.h"
#include "common/wire/epoch_record.h"
#include "common/wire/message.h"
#include "common/wire/states.h"
#include "common/wire/streams.h"

#define INCARNATION 77u
#define ANOTHER_RANK UINT32_MAX /* in each epoch */

/* How a launch ends. */
struct end {
    const char *word;
    enum control_exit kind; /* of the one rank that said hello */
    int status;
    uint64_t newest_line;
    uint32_t rank;
};

static const struct end ends[] = {
    {"finished", CONTROL_EXIT_STATUS, 0, 7, 2},      {"aborted", CONTROL_EXIT_ABORT, 5, 7, 2},
    {"lost", CONTROL_EXIT_NONE, 0, 0, ANOTHER_RANK}, {"lost-at-7", CONTROL_EXIT_NONE, 0, 7, ANOTHER_RANK},
    {"rank-2-lost", CONTROL_EXIT_NONE, 0, 7, 2},     {"refused", CONTROL_EXIT_REFUSED, 0, 7, 2},
    {"stop", CONTROL_EXIT_STATUS, 0, 7, 2},
};

static const char *directory; /* the run directory */
static char word[32];         /* of the present epoch */
static char job[80];
static uint32_t epoch;
static uint64_t newest_line; /* committed */

static char *path_of(const char *name)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
    FILE *journal = fopen(path_of("journal"), "a");
    va_list ap;
    va_start(ap, format);
    vfprintf(journal, format, ap);
    va_end(ap);
    fputc('\n', journal);
    fclose(journal);
}

/* Take the script's first word; the rest is for the next launch, whichever agent serves it. */
static void take_word(void)
{
    char rest[1024] = "";
    FILE *script = fopen(path_of("script"), "r+");
    word[0] = '\0';
    if (fscanf(script, "%31s", word) == 1)
        rest[fread(rest, 1, sizeof rest - 1, script)] = '\0';
    fclose(script);
    script = fopen(path_of("script"), "w");
    fputs(rest, script);
    fclose(script);
}

static void reply(int sock, Belay__Wire__Reply *message)
{
    message_send(sock, &message->base, NULL, 0, NULL);
}

/* Does the file "lie" in the run directory say that it is to answer in this odd way? */
static bool lies(const char *how)
{
    char said[32] = "";
    FILE *file = fopen(path_of("lie"), "r");
    bool is_said = file && fscanf(file, "%31s", said) == 1 && !strcmp(said, how);
    if (file)
        fclose(file);
    return is_said;
}

/* Of a rank that has written more than there can be, and to the arbiter's counts as well. */
static void damage_streams(int fd)
{
    struct streams head = {.magic = STREAMS_MAGIC, .version = STREAMS_VERSION, .ranks = 1};
    struct streams_rank slot = {0};
    head.input_bytes = head.input_from = UINT64_MAX;
    head.input_epoch = 1;
    slot.streams[0].ends[0].bytes = 1ull << 40;
    slot.streams[1].ends[0].bytes = 5;
    slot.streams[1].taken = UINT64_MAX - 7;
    if (pwrite(fd, &head, sizeof head, 0) != sizeof head ||
        pwrite(fd, &slot, sizeof slot, (off_t)STREAMS_SLOT(0)) != sizeof slot)
        abort();
}

static int make_streams(void)
{
    const struct streams head = {.magic = STREAMS_MAGIC, .version = STREAMS_VERSION};
    int fd = lies("open-streams") ? memfd_create("streams", MFD_CLOEXEC)
                                  : descriptor_make_memory("streams", STREAMS_BYTES, NULL);
    if (pwrite(fd, &head, sizeof head, 0) != sizeof head)
        abort();
    if (lies("damaged-streams"))
        damage_streams(fd);
    return fd;
}

/* Streams without ranks. */
static void send_opened(int sock, Belay__Wire__Reply *message)
{
    int fds[2] = {make_streams(), lies("no-eventfd") ? dup(sock) : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    message_send(sock, &message->base, fds, lies("no-eventfd-at-all") ? 1 : 2, NULL);
    close(fds[0]);
    close(fds[1]);
}

static void answer_job_open(int sock, const Belay__Wire__JobOpen *open)
{
    char *empty[] = {""};
    Belay__Wire__Reply message = BELAY__WIRE__REPLY__INIT;
    Belay__Wire__JobOpened opened = BELAY__WIRE__JOB_OPENED__INIT;
    Belay__Wire__EpochRecord record = BELAY__WIRE__EPOCH_RECORD__INIT;
    uint32_t members[] = {0};
    uint64_t incarnations[] = {INCARNATION};
    note("open %s%s", open->job[0] ? open->job : "-", open->restart ? " restart" : "");
    if (open->restart && access(path_of("no-line"), F_OK) == 0) {
        message.error = "there is no committed line";
        message.error_code = ENODATA;
    } else {
        opened.job = open->job[0] ? open->job : "sh-1";
        if (lies("other-name"))
            opened.job = "other";
        if (lies("bad-name"))
            opened.job = "../../job";
        opened.cwd = lies("relative-folder") ? "here" : "";
        opened.argv = empty;
        opened.n_argv = lies("empty-word") ? 1 : 0;
        newest_line = opened.newest_line = open->restart ? 7 : 0;
        snprintf(job, sizeof job, "%s", opened.job);
        record.job = job;
        record.epoch = record.n_members = record.n_incarnations = 1;
        record.members = members;
        record.incarnations = incarnations;
        if (open->restart && !lies("no-record"))
            opened.record = &record;
        opened.newest_epoch = lies("promised-9") ? 9 : 0;
        opened.settings = open->settings;
        if (!opened.settings->has_max_restarts) /* a restart, which is told what is recorded */
            opened.settings->max_restarts = 3;
        opened.settings->has_max_restarts = true;
        message.body_case = BELAY__WIRE__REPLY__BODY_JOB_OPENED;
        message.job_opened = &opened;
    }
    send_opened(sock, &message);
}

static void answer_inquire(int sock, const Belay__Wire__Inquire *inquire)
{
    Belay__Wire__Reply message = BELAY__WIRE__REPLY__INIT;
    Belay__Wire__NodeState state = BELAY__WIRE__NODE_STATE__INIT;
    if (inquire->reason[0])
        note("reason %s", inquire->reason);
    state.incarnation = lies("no-incarnation") ? 0 : lies("other-memory") ? INCARNATION + 1 : INCARNATION;
    state.committed_line = state.last_line = newest_line;
    state.room = UINT32_MAX;
    message.body_case = BELAY__WIRE__REPLY__BODY_NODE_STATE;
    message.node_state = &state;
    reply(sock, &message);
}

static void send_event(int sock, Belay__Wire__Event *event)
{
    Belay__Wire__Reply message = BELAY__WIRE__REPLY__INIT;
    message.body_case = BELAY__WIRE__REPLY__BODY_EVENT;
    message.event = event;
    reply(sock, &message);
}

/* Two ranks, all at once or, as a lie, one of them twice. */
static void tell_ranks_up(int sock)
{
    Belay__Wire__Event event = BELAY__WIRE__EVENT__INIT;
    Belay__Wire__RanksUp up = BELAY__WIRE__RANKS_UP__INIT;
    uint32_t ranks[] = {1, lies("rank-twice") ? 1 : 0};
    up.epoch = epoch;
    up.world_size = up.n_ranks = 2;
    up.ranks = ranks;
    event.ranks_up = &up;
    send_event(sock, &event);
}

static void answer_epoch_start(int sock, const Belay__Wire__EpochStart *start)
{
    Belay__Wire__Reply message = BELAY__WIRE__REPLY__INIT;
    Belay__Wire__EpochEntered entered = BELAY__WIRE__EPOCH_ENTERED__INIT;
    Belay__Wire__Event event = BELAY__WIRE__EVENT__INIT;
    take_word();
    epoch = start->start->epoch;
    note("epoch %u line %u", epoch, (unsigned)start->start->line);
    entered.epoch = lies("other-epoch") ? epoch + 1 : epoch;
    entered.restore_line = start->start->line;
    message.body_case = BELAY__WIRE__REPLY__BODY_EPOCH_ENTERED;
    message.epoch_entered = &entered;
    reply(sock, &message);
    if (access(path_of("ranks-come-up"), F_OK) == 0)
        tell_ranks_up(sock);
    event.stop_requested = true;
    if (!strcmp(word, "stop")) {
        Belay__Wire__Event loss = BELAY__WIRE__EVENT__INIT;
        loss.text = "rank 0 (pid 4711) was lost"; /* the launcher kills it, as it was asked to */
        loss.lost = true;
        send_event(sock, &event);
        send_event(sock, &loss);
    }
    while (!strcmp(word, "vanish-later") && access(path_of("vanish"), F_OK))
        poll(NULL, 0, 1);
    if (!strncmp(word, "vanish", 6))
        _exit(EXIT_SUCCESS);
}

static void answer_epoch_placed(int sock, const Belay__Wire__EpochPlaced *placed)
{
    Belay__Wire__Reply message = BELAY__WIRE__REPLY__INIT;
    Belay__Wire__Done done = BELAY__WIRE__DONE__INIT;
    note("placed %u ranks %u", placed->start->epoch, epoch_record_ranks(placed->start));
    message.body_case = BELAY__WIRE__REPLY__BODY_DONE;
    message.done = &done;
    reply(sock, &message);
    fclose(fopen(path_of("placed"), "w"));
}

static void answer_launch_ended(int sock)
{
    Belay__Wire__Reply message = BELAY__WIRE__REPLY__INIT;
    Belay__Wire__LaunchFacts facts = BELAY__WIRE__LAUNCH_FACTS__INIT;
    Belay__Wire__RankEnd end = BELAY__WIRE__RANK_END__INIT, *list[] = {&end};
    note("ended");
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        if (strcmp(word, ends[i].word) != 0)
            continue;
        end.kind = ends[i].kind;
        end.status = ends[i].status;
        end.rank = ends[i].rank == ANOTHER_RANK ? 1 + epoch : ends[i].rank;
        end.pid = 4711;
        newest_line = facts.newest_line = ends[i].newest_line;
        facts.n_ranks = 1;
    }
    if (lies("unknown-end"))
        end.kind = 77;
    facts.is_stopped = !strcmp(word, "stop");
    facts.ranks = list;
    message.body_case = BELAY__WIRE__REPLY__BODY_LAUNCH_FACTS;
    message.launch_facts = &facts;
    reply(sock, &message);
}

static void answer_job_close(int sock, const Belay__Wire__JobClose *end)
{
    Belay__Wire__Reply message = BELAY__WIRE__REPLY__INIT;
    Belay__Wire__Done done = BELAY__WIRE__DONE__INIT;
    char record[100];
    note("close %s %s %d", job_state_name((enum job_state)end->job_state), end->keep_images ? "keep" : "drop",
         end->exit_status);
    snprintf(record, sizeof record, "jobs/%s.epochs", job);
    if (!end->keep_images)
        unlink(path_of(record));
    message.body_case = BELAY__WIRE__REPLY__BODY_DONE;
    message.done = &done;
    reply(sock, &message);
}

static void answer(int sock, const Belay__Wire__Request *request)
{
    Belay__Wire__Reply message = BELAY__WIRE__REPLY__INIT;
    Belay__Wire__Pong pong = BELAY__WIRE__PONG__INIT;
    switch (request->body_case) {
    case BELAY__WIRE__REQUEST__BODY_JOB_OPEN:
        answer_job_open(sock, request->job_open);
        break;
    case BELAY__WIRE__REQUEST__BODY_INQUIRE:
        answer_inquire(sock, request->inquire);
        break;
    case BELAY__WIRE__REQUEST__BODY_EPOCH_START:
        answer_epoch_start(sock, request->epoch_start);
        break;
    case BELAY__WIRE__REQUEST__BODY_EPOCH_PLACED:
        answer_epoch_placed(sock, request->epoch_placed);
        break;
    case BELAY__WIRE__REQUEST__BODY_LAUNCH_ENDED:
        answer_launch_ended(sock);
        break;
    case BELAY__WIRE__REQUEST__BODY_JOB_CLOSE:
        answer_job_close(sock, request->job_close);
        break;
    default:
        message.body_case = BELAY__WIRE__REPLY__BODY_PONG;
        message.pong = &pong;
        reply(sock, &message);
    }
}

static void serve(int sock)
{
    uint8_t *bytes;
    ssize_t length;
    while ((length = message_receive(sock, &bytes, NULL, NULL, NULL)) > 0) {
        Belay__Wire__Request *request = belay__wire__request__unpack(NULL, (size_t)length, bytes);
        free(bytes);
        if (!request)
            return;
        answer(sock, request);
        belay__wire__request__free_unpacked(request, NULL);
    }
}

int fake_agent_start(const char *rundir)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    directory = rundir;
    snprintf(name.sun_path, sizeof name.sun_path, "%s/agent.sock", rundir);
    unlink(name.sun_path);
    if (bind(listener, (struct sockaddr *)&name, sizeof name) || listen(listener, 4))
        return EXIT_FAILURE;
    if (fork())
        return EXIT_SUCCESS;
    setsid();
    for (int fd = 0; fd < listener; fd++)
        close(fd); /* the test waits for the end of its pipes */
    int sock = accept(listener, NULL, NULL);
    close(listener);
    serve(sock);
    _exit(EXIT_SUCCESS);
}
