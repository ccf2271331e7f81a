#include "node-agent/test/steps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "node-agent/store/apply.h"

#define THREADS 3 /* that share the copying */

const struct control_moves *steps_moves;

static struct capture *create(struct memory *memory, uint64_t line)
{
    struct capture_subject subject = {.memory = memory,
                                      .program = "/usr/bin/app",
                                      .moves = steps_moves,
                                      .header = {.line = line, .ranks = 1}};
    struct capture *capture = capture_create(&subject);
    assert_non_null(capture);
    return capture;
}

static void fail_line(uint64_t line, const struct belay_error *err)
{
    fail_msg("line %llu: %s", (unsigned long long)line, err->text);
}

uint64_t steps_ahead(struct memory *memory, uint64_t line)
{
    struct belay_error err = {0};
    const bool is_cancelled = false;
    const struct stage_limits limits = {
        .room_bytes = UINT64_MAX, .most_bytes = UINT64_MAX, .is_cancelled = &is_cancelled};
    struct capture *capture = create(memory, line);
    if (capture_ahead(capture, &limits, &err) < 0)
        fail_line(line, &err);
    uint64_t bytes = capture_copied_bytes(capture);
    capture_destroy(capture);
    return bytes;
}

struct capture *steps_capture(struct memory *memory, uint64_t line)
{
    struct belay_error err = {0};
    struct capture *capture = create(memory, line);
    if (capture_plan(capture, &err) < 0 || capture_copy(capture, THREADS, &err) < 0 ||
        capture_finish(capture, &err) < 0)
        fail_line(line, &err);
    return capture;
}

struct capture *steps_begin(struct memory *memory, uint64_t line, struct control_copying *copying,
                            uint64_t *guarded_bytes)
{
    struct belay_error err = {0};
    struct capture_subject subject = {.memory = memory,
                                      .program = "/usr/bin/app",
                                      .moves = steps_moves,
                                      .is_guarding = true,
                                      .guard_least_bytes = 1,
                                      .copying = copying,
                                      .header = {.line = line, .ranks = 1}};
    struct capture *capture = capture_create(&subject);
    assert_non_null(capture);
    if (capture_plan(capture, &err) < 0 || capture_copy(capture, THREADS, &err) < 0)
        fail_line(line, &err);
    *guarded_bytes = capture_guarded_bytes(capture);
    return capture;
}

void steps_finish(struct capture *capture, uint64_t line)
{
    struct belay_error err = {0};
    if (capture_finish(capture, &err) < 0)
        fail_line(line, &err);
}

int steps_image(struct capture *capture, int image, uint64_t line, bool is_pinned)
{
    struct belay_error err = {0};
    struct apply apply = {.image = image, .is_pinned = is_pinned, .copy = -1, .line = line, .made = -1};
    apply.delta = capture_take(capture, &apply.base_line);
    capture_commit(capture);
    capture_destroy(capture);
    if (apply.base_line == 0) {
        if (image >= 0)
            close(image);
        return apply.delta;
    }
    if (apply_delta(&apply, &err) < 0)
        fail_line(line, &err);
    close(apply.delta);
    if (apply.made < 0)
        return image;
    close(image);
    return apply.made;
}
