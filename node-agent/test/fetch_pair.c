/* fetch_pair.c - see fetch_pair.h. */
#include "node-agent/test/fetch_pair.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/image/root.h"
#include "common/image/sums.h"

#define ROOM (1u << 20) /* of all that a transfer brings */

struct side pair_sides[2];
struct transit *pair_in_transit;
uv_loop_t pair_loop;
struct epoch_start *pair_start;

/* ---- the link ---- */

static unsigned side_of(const struct remotes *remotes)
{
    return remotes == &pair_sides[1].remotes;
}

void remotes_hear(struct remotes *remotes, enum remotes_subject subject, const struct remotes_ops *ops,
                  void *context)
{
    if (subject == REMOTES_SHARES) /* nothing is made again here */
        return;
    assert_int_equal(subject, REMOTES_IMAGES);
    remotes->ops = ops;
    remotes->ops_context = context;
}

static struct transit *put(const struct remotes *remotes, const void *tag, size_t tag_bytes)
{
    struct transit *transit = calloc(1, sizeof *transit), **last = &pair_in_transit;
    assert_non_null(transit);
    assert_true(tag_bytes <= sizeof transit->tag);
    transit->to = 1 - side_of(remotes);
    memcpy(transit->tag, tag, tag_bytes);
    transit->tag_bytes = tag_bytes;
    while (*last)
        last = &(*last)->next;
    return *last = transit;
}

int remotes_say(struct remotes *remotes, enum remotes_subject subject, uint32_t node, const void *bytes,
                size_t count)
{
    (void)node;
    assert_int_equal(subject, REMOTES_IMAGES);
    put(remotes, bytes, count)->is_word = true;
    return 0;
}

int remotes_push(struct remotes *remotes, enum remotes_subject subject, uint32_t node, const void *tag,
                 size_t tag_bytes, uint64_t bytes, fabric_fill_f *fill, transfer_done_f *done, void *context)
{
    struct transit *push = put(remotes, tag, tag_bytes);
    assert_int_equal(subject, REMOTES_IMAGES);
    assert_int_equal(node, push->to);
    push->bytes = bytes;
    push->fill = fill;
    push->done = done;
    push->context = context;
    return 0;
}

/* Pieces of odd sizes, as chunks may end anywhere. */
static int give(const struct transfer_intake *intake, const uint8_t *bytes, size_t count)
{
    for (size_t at = 0, piece = 1; at < count; at += piece, piece = piece * 3 + 1) {
        piece = piece < count - at ? piece : count - at;
        if (intake->take(intake->context, at, bytes + at, piece) < 0)
            return errno;
    }
    return 0;
}

/* damage may be NULL. Returns what both ends are told. */
static int carry(const struct transit *push, struct fuzz *damage)
{
    static uint8_t bytes[ROOM];
    const struct remotes *to = &pair_sides[push->to].remotes;
    struct transfer_intake intake;
    size_t count = 0;
    ssize_t got = 1;
    int error =
        to->ops->offered(to->ops_context, 1 - push->to, push->tag, push->tag_bytes, push->bytes, &intake);
    if (error)
        return error;
    while (got > 0 && (got = push->fill(push->context, bytes + count, (sizeof bytes - count) / 3)) > 0)
        count += (size_t)got;
    error = got < 0 ? errno : 0;
    if (!error && damage)
        fuzz_damage(damage, bytes, &count, sizeof bytes);
    if (!error)
        error = give(&intake, bytes, count);
    intake.done(intake.context, error);
    return error;
}

void pair_deliver_one(struct fuzz *damage)
{
    struct transit *first = pair_in_transit;
    pair_in_transit = first->next;
    const struct remotes *to = &pair_sides[first->to].remotes;
    if (!first->is_word)
        first->done(first->context, carry(first, damage));
    else if (to->ops)
        to->ops->word(to->ops_context, 1 - first->to, first->tag, first->tag_bytes);
    free(first);
}

void pair_deliver(struct fuzz *damage)
{
    while (pair_sides[1].told == 0) {
        while (pair_in_transit)
            pair_deliver_one(damage);
        uv_run(&pair_loop, UV_RUN_ONCE);
    }
}

/* ---- the machine, and the arbiter ---- */

uint32_t membership_wants(const struct membership *machine, const struct membership_want **wants)
{
    *wants = &machine->want;
    return 1;
}

void membership_image(struct membership *machine, uint64_t line, uint32_t rank)
{
    assert_int_equal(line, LINE);
    assert_int_equal(rank, 1);
    machine->images++;
}

/* As coord/member.c does it. */
bool membership_may_lend(struct membership *machine, uint32_t node, uint64_t line, uint32_t rank,
                         uint64_t image_line)
{
    (void)machine, (void)node, (void)rank;
    return line == image_line;
}

void job_tell_text(struct job *job, const char *text)
{
    (void)job, (void)text;
}

void membership_refute(struct membership *machine, uint32_t node, uint32_t rank, uint64_t line)
{
    assert_int_equal(node, 0);
    assert_int_equal(rank, 1);
    assert_int_equal(line, LINE);
    machine->refuted++;
}

static void on_done(struct job *job, void *context, const struct belay_error *err)
{
    struct side *side = context;
    assert_ptr_equal(job, &side->job);
    side->told++;
    side->err = err ? *err : (struct belay_error){0};
}

/* ---- two members ---- */

void pair_open(unsigned i)
{
    struct side *side = &pair_sides[i];
    char name[] = "job-0";
    name[4] = (char)('0' + i);
    *side = (struct side){.agent.loop = &pair_loop, .machine.want = {.rank = 1, .node = 0}};
    side->settings = (Belay__Wire__JobSettings)BELAY__WIRE__JOB_SETTINGS__INIT;
    side->config = (Belay__Wire__JobOpen)BELAY__WIRE__JOB_OPEN__INIT;
    side->config.settings = &side->settings;
    side->config.node = i;
    side->job = (struct job){.agent = &side->agent, .config = &side->config, .membership = &side->machine};
    side->job.store = store_create(parts_keeper, name, NULL);
    assert_non_null(side->job.store);
    side->fetch = fetch_create(&side->job, &side->remotes, pair_start, NULL);
    assert_non_null(side->fetch);
}

int pair_setup(void **state)
{
    if (parts_setup(state) < 0 || uv_loop_init(&pair_loop) < 0)
        return -1;
    pair_start = epoch_start_create(2, 2);
    pair_start->epoch = EPOCH;
    pair_start->line = LINE;
    pair_start->members[1] = pair_start->placement[1] = 1; /* rank 1 is on node 1; node 0 has all images */
    pair_open(0);
    pair_open(1);
    parts_commit(pair_sides[0].job.store, LINE);
    return 0;
}

int pair_teardown(void **state)
{
    while (pair_in_transit) { /* the fabric ends what is on its way */
        struct transit *first = pair_in_transit;
        pair_in_transit = first->next;
        if (!first->is_word)
            first->done(first->context, ECONNRESET);
        free(first);
    }
    for (unsigned i = 0; i < 2; i++) {
        fetch_destroy(pair_sides[i].fetch);
        store_destroy(pair_sides[i].job.store, true);
    }
    free(pair_start);
    uv_run(&pair_loop, UV_RUN_DEFAULT);
    return uv_loop_close(&pair_loop) < 0 ? -1 : parts_teardown(state);
}

void pair_begin(void)
{
    pair_sides[1].told = 0;
    assert_int_equal(fetch_start(pair_sides[1].fetch, on_done, &pair_sides[1], NULL), 0);
}

void pair_assert_failed(const char *why)
{
    assert_int_equal(pair_sides[1].told, 1);
    assert_int_equal(pair_sides[1].err.code, EREMOTEIO);
    assert_non_null(strstr(pair_sides[1].err.text, why));
    assert_int_equal(pair_sides[1].machine.images, 0);
    assert_int_equal(store_image_line(pair_sides[1].job.store, 1), 0);
}

void pair_share(void)
{
    const struct store_fetched fetched = {.rank = 3, .fd = parts_image(LINE, 3), .bytes = BYTES};
    struct digest shared;
    assert_int_equal(store_take_images(pair_sides[0].job.store, LINE, 2, &fetched, 1, NULL), 0);
    assert_int_equal(root_of_image(store_image(pair_sides[0].job.store, 1), -1, &pair_start->roots[1], NULL),
                     0);
    assert_int_equal(root_of_image(store_image(pair_sides[0].job.store, 3), -1, &shared, NULL), 0);
    pair_start->roots[1] = digest_sum(&pair_start->roots[1], &shared);
    for (unsigned i = 0; i < 2; i++) {
        fetch_destroy(pair_sides[i].fetch);
        pair_sides[i].fetch = fetch_create(&pair_sides[i].job, &pair_sides[i].remotes, pair_start, NULL);
        assert_non_null(pair_sides[i].fetch);
    }
}

struct fetch_note pair_note(enum fetch_note_kind kind, uint32_t rank)
{
    return (struct fetch_note){
        .magic = FETCH_NOTE_MAGIC, .kind = kind, .epoch = EPOCH, .part = rank, .ranks = 2, .line = LINE};
}

void pair_say(unsigned side, uint32_t node, const struct fetch_note *note, size_t bytes)
{
    pair_sides[side].remotes.ops->word(pair_sides[side].remotes.ops_context, node, (const uint8_t *)note,
                                       bytes);
}
