/* message_fuzz_test.c - damaged frames: refused or read, and nothing is read beyond them or left open. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/test/fuzz.h"
#include "common/wire/belay.pb-c.h"
#include "common/wire/message.h"

#define ROUNDS 20000
#define ROOM 4096

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* A frame with nested messages, repeated texts, bytes and numbers. */
static size_t make_frame(struct fuzz *fuzz, uint8_t *to)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    Belay__Wire__Reply reply = BELAY__WIRE__REPLY__INIT;
    Belay__Wire__JobOpen open = BELAY__WIRE__JOB_OPEN__INIT;
    Belay__Wire__RankHello hello = BELAY__WIRE__RANK_HELLO__INIT;
    Belay__Wire__JobStatus status = BELAY__WIRE__JOB_STATUS__INIT;
    Belay__Wire__LineStatus line = BELAY__WIRE__LINE_STATUS__INIT, *lines[] = {&line, &line};
    char *words[] = {"mpirun", "-n", "4", "./heat"};
    uint8_t identity[32] = {1};
    size_t count;
    open.job = hello.job = status.job = "heat";
    open.argv = open.environment = status.argv = words;
    open.n_argv = open.n_environment = status.n_argv = 4;
    open.cwd = hello.program = "/home/me";
    hello.identity = (ProtobufCBinaryData){sizeof identity, identity};
    hello.ranks = 4;
    line.reason = "no memory";
    status.lines = lines;
    status.n_lines = 2;
    request.body_case = BELAY__WIRE__REQUEST__BODY_JOB_OPEN;
    request.job_open = &open;
    if (fuzz_below(fuzz, 2)) {
        request.body_case = BELAY__WIRE__REQUEST__BODY_RANK_HELLO;
        request.rank_hello = &hello;
    }
    reply.body_case = BELAY__WIRE__REPLY__BODY_STATUS;
    reply.status = &status;
    uint8_t *frame = message_pack(fuzz_below(fuzz, 3) ? &request.base : &reply.base, &count);
    memcpy(to, frame, count);
    free(frame);
    return count;
}

/* As a reader would: every text to its end. */
static size_t look_at(const ProtobufCMessage *message)
{
    size_t bytes = protobuf_c_message_get_packed_size(message);
    uint8_t *packed = malloc(bytes + 1);
    assert_int_equal(protobuf_c_message_pack(message, packed), bytes);
    free(packed);
    return bytes;
}

static void take_apart(const uint8_t *bytes, size_t count)
{
    Belay__Wire__Request *request = belay__wire__request__unpack(NULL, count, bytes);
    Belay__Wire__Reply *reply = belay__wire__reply__unpack(NULL, count, bytes);
    if (request)
        look_at(&request->base);
    if (reply)
        look_at(&reply->base);
    belay__wire__request__free_unpacked(request, NULL);
    belay__wire__reply__free_unpacked(reply, NULL);
}

static void damaged_frames(void **state)
{
    (void)state;
    struct fuzz fuzz = fuzz_begin("damaged frames");
    unsigned before = open_descriptors();
    size_t whole = 0;
    for (unsigned round = 0; round < fuzz_rounds(ROUNDS); round++) {
        uint8_t frame[ROOM], *bytes;
        int ends[2], fds[MESSAGE_MAX_FDS];
        unsigned count = (unsigned)fuzz_below(&fuzz, MESSAGE_MAX_FDS + 1), came = 0;
        size_t length = make_frame(&fuzz, frame);
        fuzz_damage(&fuzz, frame, &length, sizeof frame);
        if (length == 0)
            continue;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        for (unsigned i = 0; i < count; i++)
            fds[i] = ends[0];
        assert_int_equal(message_sendmsg(ends[1], frame, length, fds, count), (ssize_t)length);
        close(ends[1]);
        ssize_t got = message_receive(ends[0], &bytes, fds, &came, NULL);
        assert_true(got < 0 || came == count);
        for (unsigned i = 0; got > 0 && i < came; i++)
            close(fds[i]);
        if (got > 0) {
            take_apart(bytes, (size_t)got);
            whole++;
        }
        free(bytes);
        close(ends[0]);
    }
    assert_int_equal(open_descriptors(), before);
    assert_true(whole > ROUNDS / 10); /* it is the contents that are damaged, not only the lengths */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(damaged_frames)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
