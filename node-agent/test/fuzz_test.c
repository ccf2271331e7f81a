/*
 * fuzz_test.c - damaged requests, pages that ranks write anything to, damaged datagrams, and damaged
 * leftovers of a killed agent: the agent and its keeper go on serving, and hold nothing more than before.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/image/image.h"
#include "common/image/layout.h"
#include "common/test/fuzz.h"
#include "common/wire/client.h"
#include "common/wire/descriptor.h"
#include "common/wire/epoch_record.h"
#include "common/wire/message.h"
#include "common/wire/streams.h"
#include "node-agent/launch/record.pb-c.h"
#include "node-agent/store/commits.h"
#include "node-agent/store/keeper.h"
#include "node-agent/test/fixture.h"

#define ROOM 4096
#define REQUEST_ROUNDS 1500
#define PAGE_MS 1500
#define DATAGRAM_ROUNDS 5000
#define LEFTOVER_ROUNDS 60
#define PAGE IMAGE_PAGE_BYTES

static void expect_the_same_agent(void)
{
    Belay__Wire__Ping ping = BELAY__WIRE__PING__INIT;
    Belay__Wire__Reply *reply = must(tool, REQUEST(PING), &ping);
    assert_int_equal(reply->pong->agent_pid, agent_pid);
    done_with(reply);
}

static unsigned descriptors_of(pid_t pid)
{
    char path[64];
    unsigned count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static void sleep_ms(long time_ms)
{
    nanosleep(&(struct timespec){.tv_nsec = time_ms * 1000000}, NULL);
}

/* ---- requests ---- */

/* One message of each kind, whose parts point at one another. */
struct messages {
    Belay__Wire__RankHello hello;
    Belay__Wire__JobOpen open;
    Belay__Wire__JobSettings settings;
    Belay__Wire__Inquire inquiry;
    Belay__Wire__FolderQuery query;
    Belay__Wire__UndoFolder folder;
    Belay__Wire__EpochStart start;
    Belay__Wire__EpochPlaced placed;
    Belay__Wire__EpochRecord record;
    Belay__Wire__LaunchEnded ended;
    Belay__Wire__JobClose end;
    Belay__Wire__Stop named; /* all that have but a name look like this */
    uint32_t members[2], placement[2];
    uint64_t incarnations[2];
};

static void name_job(struct fuzz *fuzz, struct messages *m)
{
    *m = (struct messages){
        .hello = BELAY__WIRE__RANK_HELLO__INIT,
        .open = BELAY__WIRE__JOB_OPEN__INIT,
        .settings = BELAY__WIRE__JOB_SETTINGS__INIT,
        .inquiry = BELAY__WIRE__INQUIRE__INIT,
        .query = BELAY__WIRE__FOLDER_QUERY__INIT,
        .folder = BELAY__WIRE__UNDO_FOLDER__INIT,
        .start = BELAY__WIRE__EPOCH_START__INIT,
        .placed = BELAY__WIRE__EPOCH_PLACED__INIT,
        .record = BELAY__WIRE__EPOCH_RECORD__INIT,
        .ended = BELAY__WIRE__LAUNCH_ENDED__INIT,
        .end = BELAY__WIRE__JOB_CLOSE__INIT,
        .named = BELAY__WIRE__STOP__INIT,
        .members = {0, 1},
        .incarnations = {fuzz_edge(fuzz), 7},
    };
    m->hello.job = m->open.job = m->inquiry.job = m->record.job = m->ended.job = m->end.job = m->named.job =
        fuzz_below(fuzz, 4) ? "fuzz" : "";
    m->end.final_state = "lost";
    m->end.keep_images = true;
}

static void fill_hello_and_open(struct fuzz *fuzz, struct messages *m)
{
    static char *words[] = {"mpirun", "-n", "2", "./fake"};
    static uint8_t identity[32] = {7};
    m->hello.rank = (uint32_t)fuzz_below(fuzz, 2);
    m->hello.ranks = 2;
    m->hello.program = "/usr/bin/fake";
    m->hello.identity = (ProtobufCBinaryData){sizeof identity, identity};
    m->settings.has_interval_ms = m->settings.has_mtbf_ms = m->settings.has_duty_cycle = true;
    m->settings.interval_ms = fuzz_below(fuzz, 3);
    m->settings.mtbf_ms = fuzz_below(fuzz, 2);
    m->settings.duty_cycle = 50;
    m->hello.settings = fuzz_below(fuzz, 4) ? &m->settings : NULL;
    m->open.settings = fuzz_below(fuzz, 8) ? &m->settings : NULL;
    m->open.argv = m->open.environment = words;
    m->open.n_argv = m->open.n_environment = 4;
    m->open.cwd = "no folder of this name";
    m->open.restart = !fuzz_below(fuzz, 4);
    m->folder.path = fuzz_below(fuzz, 2) ? "/tmp" : "";
    m->folder.inode = fuzz_edge(fuzz);
    m->query.folder = fuzz_below(fuzz, 4) ? &m->folder : NULL;
}

static void fill_epoch(struct fuzz *fuzz, struct messages *m)
{
    m->inquiry.epoch = m->record.epoch =
        fuzz_below(fuzz, 4) ? 1 + (uint32_t)fuzz_below(fuzz, 3) : (uint32_t)fuzz_edge(fuzz);
    m->record.members = m->members;
    m->record.incarnations = m->incarnations;
    m->record.n_members = m->record.n_incarnations = 1 + fuzz_below(fuzz, 2);
    m->record.placement = m->record.holder = m->placement;
    m->record.n_placement = m->record.n_holder = fuzz_below(fuzz, 3);
    m->record.line = fuzz_below(fuzz, 4) ? 0 : fuzz_edge(fuzz);
    m->start.start = m->placed.start = fuzz_below(fuzz, 8) ? &m->record : NULL;
}

static void choose(Belay__Wire__Request *request, Belay__Wire__Request__BodyCase kind, struct messages *m)
{
    request->body_case = kind;
    request->stop = &m->named;
    if (kind == REQUEST(RANK_HELLO))
        request->rank_hello = &m->hello;
    else if (kind == REQUEST(JOB_OPEN))
        request->job_open = &m->open;
    else if (kind == REQUEST(FOLDER_QUERY))
        request->folder_query = &m->query;
    else if (kind == REQUEST(INQUIRE))
        request->inquire = &m->inquiry;
    else if (kind == REQUEST(EPOCH_START))
        request->epoch_start = &m->start;
    else if (kind == REQUEST(EPOCH_PLACED))
        request->epoch_placed = &m->placed;
    else if (kind == REQUEST(LAUNCH_ENDED))
        request->launch_ended = &m->ended;
    else if (kind == REQUEST(JOB_CLOSE))
        request->job_close = &m->end;
}

static void fill_request(struct fuzz *fuzz, Belay__Wire__Request__BodyCase kind, uint8_t *to, size_t *count)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    struct messages messages;
    name_job(fuzz, &messages);
    fill_hello_and_open(fuzz, &messages);
    fill_epoch(fuzz, &messages);
    choose(&request, kind, &messages);
    uint8_t *frame = message_pack(&request.base, count);
    memcpy(to, frame, *count);
    free(frame);
}

static int connect_raw(const char *socket_name, int type)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = 10};
    int sock = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    snprintf(name.sun_path, sizeof name.sun_path, "%s/%s", rundir, socket_name);
    assert_int_equal(connect(sock, (struct sockaddr *)&name, sizeof name), 0);
    setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    return sock;
}

/* A client with a few requests, most of them damaged, in the order in which an arbiter has them. */
static void be_client(struct fuzz *fuzz)
{
    static const Belay__Wire__Request__BodyCase sequence[] = {
        REQUEST(FOLDER_QUERY), REQUEST(JOB_OPEN),     REQUEST(INQUIRE),    REQUEST(EPOCH_START),
        REQUEST(RANK_HELLO),   REQUEST(EPOCH_PLACED), REQUEST(CHECKPOINT), REQUEST(STATUS),
        REQUEST(LAUNCH_ENDED), REQUEST(JOB_CLOSE),    REQUEST(LIST),       REQUEST(STOP),
        REQUEST(CLEAN)};
    const size_t count_of_sequence = sizeof sequence / sizeof *sequence;
    uint8_t frame[ROOM], reply[ROOM];
    int sock = connect_raw("agent.sock", SOCK_STREAM), fds[MESSAGE_MAX_FDS] = {0}; /* their standard input */
    for (size_t i = fuzz_below(fuzz, 4); i < count_of_sequence && fuzz_below(fuzz, 6); i++) {
        size_t count;
        unsigned fd_count = fuzz_below(fuzz, 8) ? 0 : (unsigned)fuzz_below(fuzz, MESSAGE_MAX_FDS + 1);
        fill_request(fuzz, fuzz_below(fuzz, 3) ? sequence[i] : sequence[fuzz_below(fuzz, count_of_sequence)],
                     frame, &count);
        if (fuzz_below(fuzz, 3))
            fuzz_damage(fuzz, frame, &count, sizeof frame);
        else if (fuzz_below(fuzz, 2) && count > MESSAGE_HEADER_BYTES + 2) { /* its length stays right */
            size_t body = count - MESSAGE_HEADER_BYTES - 2;
            fuzz_damage(fuzz, frame + MESSAGE_HEADER_BYTES + 2, &body, body);
        }
        if (count == 0 || (message_sendmsg(sock, frame, count, fds, fd_count) < 0 &&
                           message_sendmsg(sock, frame, count, NULL, 0) < 0))
            break;
        struct pollfd ready = {.fd = sock, .events = POLLIN};
        if (poll(&ready, 1, 1) > 0 && read(sock, reply, sizeof reply) <= 0)
            break;
    }
    close(sock);
}

/* The clients are another process: as a rank of a job that ends, it may be killed. Then the next goes on. */
static void damaged_requests(void **state)
{
    (void)state;
    struct fuzz fuzz = fuzz_begin("damaged requests");
    unsigned rounds = fuzz_rounds(REQUEST_ROUNDS), before = descriptors_of(agent_pid);
    unsigned *done = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    while (*done < rounds) {
        uint64_t seed = fuzz_next(&fuzz);
        pid_t pid = fork();
        if (pid == 0) {
            struct fuzz own = {.state = seed};
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            while (++*done <= rounds)
                be_client(&own);
            _exit(0);
        }
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
    munmap(done, PAGE);
    expect_the_same_agent();
    for (int i = 0; i < 1000; i++) { /* jobs whose clients have gone end; their records are cleaned */
        Belay__Wire__Clean clean = BELAY__WIRE__CLEAN__INIT;
        done_with(must(tool, REQUEST(CLEAN), &clean));
        if (descriptors_of(agent_pid) == before)
            break;
        sleep_ms(10);
    }
    assert_int_equal(descriptors_of(agent_pid), before);
    expect_the_same_agent();
}

/* ---- pages ---- */

static pid_t fork_asker(void)
{
    pid_t asker = fork();
    if (asker == 0) {
        Belay__Wire__Checkpoint wish = BELAY__WIRE__CHECKPOINT__INIT;
        alarm(1);
        _exit(call(agent_connect(rundir, NULL, NULL), REQUEST(CHECKPOINT), &wish, NULL) ? 0 : 1);
    }
    return asker;
}

static void end_launch(void)
{
    Belay__Wire__LaunchEnded ended = BELAY__WIRE__LAUNCH_ENDED__INIT;
    for (uint32_t i = 0; i < RANKS; i++)
        fake_rank_kill(&ranks[i]);
    reap_ranks();
    ended.job = "job";
    done_with(must(arbiter, REQUEST(LAUNCH_ENDED), &ended));
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Lines are asked for all the time; each answer within a second proves that the agent is neither stuck nor
 * gone. */
static void hostile_pages(void **state)
{
    (void)state;
    struct fuzz fuzz = fuzz_begin("hostile pages");
    unsigned before = descriptors_of(agent_pid);
    open_job(0, false);
    for (uint64_t end = now_ms() + fuzz_rounds(PAGE_MS); now_ms() < end;) {
        open_epoch(0);
        plan.hostile_seed = fuzz_next(&fuzz) | 1;
        start_ranks('r');
        for (int i = 0; i < 10; i++) {
            pid_t asker = fork_asker();
            for (int k = 0; k < 5; k++) {
                uint64_t asked = now_ms();
                done_with(status());
                expect_the_same_agent();
                assert_true(now_ms() - asked < 10000);
                place_ranks_if_up();
                sleep_ms(5);
            }
            kill(asker, SIGKILL);
            assert_int_equal(waitpid(asker, NULL, 0), asker);
        }
        end_launch();
    }
    close_job(JOB_STATE_FAILED, false);
    for (int i = 0; i < 500 && descriptors_of(agent_pid) != before; i++)
        sleep_ms(10);
    assert_int_equal(descriptors_of(agent_pid), before);
}

/* ---- the keeper ---- */

static void drop_held(void *context, const char *name, int fd)
{
    char(*names)[KEEPER_NAME_BYTES] = context;
    close(fd);
    for (int i = 0; i < 64; i++) {
        if (!names[i][0]) {
            snprintf(names[i], KEEPER_NAME_BYTES, "%s", name);
            return;
        }
    }
}

static void damaged_datagrams(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "PUT a", "PUT job/image/1/0", "DROP a", "LIST", "RETAIN 3600000", "END", ""};
    struct fuzz fuzz = fuzz_begin("damaged datagrams");
    static char names[64][KEEPER_NAME_BYTES];
    int sock = connect_raw(KEEPER_SOCKET, SOCK_SEQPACKET), fd;
    char reply[KEEPER_MESSAGE_BYTES];
    struct belay_error err;
    for (unsigned round = 0; round < fuzz_rounds(DATAGRAM_ROUNDS); round++) {
        uint8_t text[KEEPER_MESSAGE_BYTES + 64];
        const char *from = texts[fuzz_below(&fuzz, sizeof texts / sizeof texts[0])];
        size_t count = strlen(from);
        int fds[3] = {sock, sock, sock};
        memcpy(text, from, count);
        if (fuzz_below(&fuzz, 3))
            fuzz_damage(&fuzz, text, &count, sizeof text);
        if (count == 0) /* the end of a connection */
            continue;
        assert_true(message_sendmsg(sock, text, count, fds, (unsigned)fuzz_below(&fuzz, 4)) >= 0);
        do {
            assert_true(keeper_receive(sock, reply, &fd) > 0);
            if (fd >= 0)
                close(fd);
        } while (!strncmp(reply, "ITEM ", 5));
        if (round % 64 == 0) { /* names are any; they go again */
            struct keeper *keeper = keeper_open(rundir, "/bin/false", &err);
            memset(names, 0, sizeof names);
            assert_int_equal(keeper_list(keeper, drop_held, names, &err), 0);
            for (int i = 0; i < 64 && names[i][0]; i++)
                assert_int_equal(keeper_drop(keeper, names[i], &err), 0);
            keeper_detach(keeper);
            keeper_close(keeper);
        }
    }
    struct keeper *keeper = keeper_open(rundir, "/bin/false", &err);
    for (int left = 1; left;) {
        memset(names, 0, sizeof names);
        assert_int_equal(keeper_list(keeper, drop_held, names, &err), 0);
        left = names[0][0] != '\0';
        for (int i = 0; i < 64 && names[i][0]; i++)
            keeper_drop(keeper, names[i], &err);
    }
    keeper_detach(keeper);
    keeper_close(keeper);
    close(sock);
    expect_the_same_agent();
    open_job(0, false); /* it has its keeper still */
    close_job(JOB_STATE_FAILED, false);
}

/* ---- leftovers ---- */

enum leftover { RECORD, COMMITS, IMAGE, DELTA, STREAMS, EPOCHS, ARBITER, LEFTOVERS };

static int make_memfd(const uint8_t *bytes, size_t count)
{
    int fd = memfd_create("leftover", MFD_CLOEXEC);
    assert_int_equal(pwrite(fd, bytes, count, 0), (ssize_t)count);
    return fd;
}

static size_t pack_record(uint8_t *to)
{
    Belay__Agent__JobRecord record = BELAY__AGENT__JOB_RECORD__INIT;
    Belay__Wire__JobOpen config = BELAY__WIRE__JOB_OPEN__INIT;
    Belay__Wire__JobSettings settings = BELAY__WIRE__JOB_SETTINGS__INIT;
    Belay__Wire__JobStatus status = BELAY__WIRE__JOB_STATUS__INIT;
    Belay__Wire__EpochStatus epoch = BELAY__WIRE__EPOCH_STATUS__INIT, *history[] = {&epoch};
    Belay__Wire__LineStatus line = BELAY__WIRE__LINE_STATUS__INIT, *lines[] = {&line};
    char *words[] = {"mpirun", "-n", "2", "./fake"};
    config.job = status.job = "job";
    config.settings = &settings;
    config.argv = status.argv = words;
    config.n_argv = status.n_argv = 4;
    config.cwd = "/tmp";
    status.state = "running";
    status.epoch = epoch.epoch = 1;
    status.ranks = 2;
    epoch.reason = "start";
    line.line = 1;
    line.state = "committed";
    status.history = history;
    status.lines = lines;
    status.n_history = status.n_lines = 1;
    record.config = &config;
    record.status = &status;
    return belay__agent__job_record__pack(&record, to);
}

/* Header and tables are damaged at their places. */
static void damage_image(struct fuzz *fuzz, int fd, off_t tables)
{
    uint8_t bytes[512];
    off_t at = fuzz_below(fuzz, 2) ? 0 : tables;
    ssize_t got = pread(fd, bytes, sizeof bytes, at);
    size_t count = got > 0 ? (size_t)got : 0;
    fuzz_damage(fuzz, bytes, &count, sizeof bytes);
    assert_int_equal(pwrite(fd, bytes, count, at), (ssize_t)count);
}

/* Of line 1, or a delta to it. */
static int make_part(uint32_t rank, bool is_delta)
{
    struct image_region region = {
        .start = UPPER_BASE, .end = UPPER_BASE + 8 * PAGE, .kind = IMAGE_REGION_ANON, .prot = 3};
    struct image_run run = {UPPER_BASE, 2 * PAGE, image_offset(UPPER_BASE)},
                     changed = {UPPER_BASE, PAGE, PAGE};
    struct run_set present = {.runs = &run, .count = 1},
                   runs = {.runs = is_delta ? &changed : &run, .count = 1};
    struct image_pages pages = {.runs = &runs, .present = is_delta ? &present : NULL};
    struct image_header header = {
        .line = is_delta ? 2 : 1, .base_line = is_delta ? 1 : 0, .rank = rank, .ranks = 2};
    struct image_writer *writer = image_writer_create();
    int fd = is_delta ? memfd_create("delta", MFD_CLOEXEC) : image_make_memfd(NULL);
    if (is_delta)
        assert_int_equal(ftruncate(fd, 2 * PAGE), 0);
    assert_int_equal(image_writer_add_region(writer, &region, NULL), 0);
    assert_int_equal(image_writer_finish(writer, &pages, &header, fd, is_delta ? 2 * PAGE : PAGE, NULL), 0);
    image_writer_destroy(writer);
    return fd;
}

static void put(struct keeper *keeper, const char *name, int fd)
{
    struct belay_error err;
    if (keeper_put(keeper, name, fd, &err) < 0)
        fail_msg("%s", err.text);
    close(fd);
}

/* The records of its one epoch: the member's, which an agent may have left empty, and the arbiter's. */
static void put_epochs(struct keeper *keeper, struct fuzz *fuzz, enum leftover damaged)
{
    uint32_t members[1] = {0}, placement[2] = {0, 0};
    uint64_t incarnations[1] = {7};
    Belay__Wire__EpochRecord record = BELAY__WIRE__EPOCH_RECORD__INIT;
    uint8_t bytes[ROOM];
    size_t count;
    record.job = "job";
    record.epoch = record.n_members = record.n_incarnations = 1;
    record.members = members;
    record.incarnations = incarnations;
    record.placement = record.holder = placement;
    record.n_placement = record.n_holder = 2;
    uint8_t *packed = epoch_record_pack(&record, &count);
    assert_non_null(packed);
    memcpy(bytes, packed, count);
    free(packed);
    if (damaged == ARBITER)
        fuzz_damage(fuzz, bytes, &count, sizeof bytes);
    put(keeper, "job/arbiter", make_memfd(bytes, count));
    count = 2 * sizeof(uint64_t);
    int fd = descriptor_make_memory("epochs", PAGE, NULL);
    if (damaged == EPOCHS) {
        fuzz_damage(fuzz, bytes, &count, sizeof bytes);
        assert_int_equal(descriptor_put(fd, fuzz_below(fuzz, PAGE - sizeof bytes / 2), bytes, count / 2), 0);
    }
    put(keeper, "job/epochs", fd);
}

/* All that an agent leaves of a job with two ranks and a delta that is not applied yet; one part is damaged.
 */
static void leave(struct keeper *keeper, struct fuzz *fuzz, enum leftover damaged)
{
    uint8_t bytes[ROOM];
    size_t count = pack_record(bytes);
    char name[KEEPER_NAME_BYTES];
    struct belay_error err;
    struct commit_entry entry = {.line = 1, .is_committed = 1, .ranks = 2};
    if (damaged == RECORD)
        fuzz_damage(fuzz, bytes, &count, sizeof bytes);
    put(keeper, "job/job", make_memfd(bytes, count));
    struct commits *commits = commits_create(keeper, "job/commits", &err);
    assert_non_null(commits);
    if (damaged == COMMITS) { /* with a sum that is right */
        count = offsetof(struct commit_entry, checksum) ? 64 : 128;
        fuzz_damage(fuzz, (uint8_t *)&entry + 8, &count, count);
    }
    assert_int_equal(commits_append(commits, &entry, &err), 0);
    entry = (struct commit_entry){.line = 2, .is_committed = 1, .ranks = 2};
    assert_int_equal(commits_append(commits, &entry, &err), 0);
    commits_destroy(commits, false);
    for (uint32_t rank = 0; rank < 2; rank++) {
        int image = make_part(rank, false), delta = make_part(rank, true);
        if (damaged == IMAGE)
            damage_image(fuzz, image, PAGE);
        if (damaged == DELTA)
            damage_image(fuzz, delta, 2 * PAGE);
        snprintf(name, sizeof name, "job/image/1/%u", rank);
        put(keeper, name, image);
        snprintf(name, sizeof name, "job/delta/2/%u", rank);
        put(keeper, name, delta);
    }
    put(keeper, "job/streams",
        damaged == STREAMS ? memfd_create("streams", MFD_CLOEXEC)
                           : descriptor_make_memory("streams", STREAMS_BYTES, NULL));
    put_epochs(keeper, fuzz, damaged);
    const char *odd[] = {"job/image/1/7", "job/nothing/of/this", "job/spare/2/3", "job/spare/2/4294967295"};
    put(keeper, odd[fuzz_below(fuzz, 4)], memfd_create("odd", MFD_CLOEXEC));
}

static bool take_up(const char *belayd)
{
    struct belay_error err;
    Belay__Wire__JobOpen open = BELAY__WIRE__JOB_OPEN__INIT;
    Belay__Wire__JobSettings settings = BELAY__WIRE__JOB_SETTINGS__INIT;
    arbiter = agent_connect(rundir, belayd, &err);
    if (arbiter < 0)
        fail_msg("%s", err.text);
    tool = agent_connect(rundir, NULL, NULL);
    Belay__Wire__Ping ping = BELAY__WIRE__PING__INIT;
    Belay__Wire__Reply *reply = must(tool, REQUEST(PING), &ping);
    agent_pid = (pid_t)reply->pong->agent_pid;
    done_with(reply);
    open.job = "job";
    open.restart = true;
    open.settings = &settings;
    reply = call(arbiter, REQUEST(JOB_OPEN), &open, &err);
    bool is_there = reply;
    uint32_t epoch = is_there ? reply->job_opened->newest_epoch + 1 : 0;
    done_with(reply);
    Belay__Wire__Reply *answer = is_there ? inquire(epoch, &err) : NULL;
    if (answer)
        done_with(start_epoch(epoch, answer->node_state->committed_line, answer->node_state, &err));
    done_with(answer);
    return is_there;
}

static void damaged_leftovers(void **state)
{
    (void)state;
    struct fuzz fuzz = fuzz_begin("damaged leftovers");
    char belayd[PATH_MAX], keeper_program[PATH_MAX];
    unsigned taken = 0, rounds = fuzz_rounds(LEFTOVER_ROUNDS);
    struct belay_error err;
    agent_program(belayd);
    snprintf(keeper_program, sizeof keeper_program, "%.*s/belay-keeper", (int)(strrchr(belayd, '/') - belayd),
             belayd);
    for (unsigned round = 0; round < rounds; round++) {
        kill(agent_pid, SIGKILL); /* before it sees that its last client has gone, and leaves */
        wait_gone(agent_pid);
        disconnect();
        struct keeper *keeper = keeper_open(rundir, keeper_program, &err);
        assert_non_null(keeper);
        leave(keeper, &fuzz, round == 0 ? LEFTOVERS : (enum leftover)fuzz_below(&fuzz, LEFTOVERS));
        keeper_detach(keeper);
        keeper_close(keeper);
        taken += take_up(belayd);
        assert_true(round > 0 || taken == 1);
        Belay__Wire__Clean clean = BELAY__WIRE__CLEAN__INIT;
        close(arbiter); /* whose job ends with it */
        arbiter = -1;
        done_with(must(tool, REQUEST(CLEAN), &clean));
        expect_the_same_agent();
    }
    assert_true(taken > rounds / 20 && taken < rounds);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(damaged_requests),
        EACH(hostile_pages),
        EACH(damaged_datagrams),
        EACH(damaged_leftovers),
    };
    setenv("BELAY_DUMPABLE", "1", 1); /* its descriptors are counted */
    setenv("BELAY_LOG", "none", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
