/*
 * fetch_test.c - an image fetched from one member by another, over a link that the test makes: what is lent
 * and to whom, what is kept, what damaged words and data do. The machine (job/membership.h) is the test's.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/image/root.h"
#include "common/image/sums.h"
#include "common/test/fuzz.h"
#include "common/util/uffd.h"
#include "node-agent/member/fetch.h"
#include "node-agent/member/fetch_note.h"
#include "node-agent/member/loads.h"
#include "node-agent/test/store_parts.h"

#define EPOCH 3u
#define LINE 7u
#define ROOM (1u << 20) /* of all that a transfer brings */
#define ROUNDS 400

/* What one side has sent, until the test delivers it. */
struct transit {
    struct transit *next;
    unsigned to;
    bool is_word;
    uint8_t tag[FABRIC_TAG_BYTES];
    size_t tag_bytes;
    uint64_t bytes;
    fabric_fill_f *fill;
    transfer_done_f *done;
    void *context;
};

struct remotes {
    const struct remotes_ops *ops;
    void *ops_context;
};
struct membership {
    struct membership_want want;
    uint32_t images; /* that have come, as it was told */
    uint32_t refuted;
};
/* Node 0 has the images of both ranks; rank 1 is to run on node 1. */
static struct side {
    struct remotes remotes;
    struct membership machine;
    struct agent agent;
    Belay__Wire__JobOpen config;
    Belay__Wire__JobSettings settings;
    struct job job;
    struct fetch *fetch;
    unsigned told;
    struct belay_error err; /* code 0: all has come */
} sides[2];
static struct transit *in_transit;
static uv_loop_t loop;
static struct epoch_start *start;

/* ---- the link ---- */

static unsigned side_of(const struct remotes *remotes)
{
    return remotes == &sides[1].remotes;
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
    struct transit *transit = calloc(1, sizeof *transit), **last = &in_transit;
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
    const struct remotes *to = &sides[push->to].remotes;
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

static void deliver_one(struct fuzz *damage)
{
    struct transit *first = in_transit;
    in_transit = first->next;
    const struct remotes *to = &sides[first->to].remotes;
    if (!first->is_word)
        first->done(first->context, carry(first, damage));
    else if (to->ops)
        to->ops->word(to->ops_context, 1 - first->to, first->tag, first->tag_bytes);
    free(first);
}

/* Until node 1 has been told how it ended; images are checked in threads. */
static void deliver(struct fuzz *damage)
{
    while (sides[1].told == 0) {
        while (in_transit)
            deliver_one(damage);
        uv_run(&loop, UV_RUN_ONCE);
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

static void open_side(unsigned i)
{
    struct side *side = &sides[i];
    char name[] = "job-0";
    name[4] = (char)('0' + i);
    *side = (struct side){.agent.loop = &loop, .machine.want = {.rank = 1, .node = 0}};
    side->settings = (Belay__Wire__JobSettings)BELAY__WIRE__JOB_SETTINGS__INIT;
    side->config = (Belay__Wire__JobOpen)BELAY__WIRE__JOB_OPEN__INIT;
    side->config.settings = &side->settings;
    side->config.node = i;
    side->job = (struct job){.agent = &side->agent, .config = &side->config, .membership = &side->machine};
    side->job.store = store_create(parts_keeper, name, NULL);
    assert_non_null(side->job.store);
    side->fetch = fetch_create(&side->job, &side->remotes, start, NULL);
    assert_non_null(side->fetch);
}

static int setup(void **state)
{
    if (parts_setup(state) < 0 || uv_loop_init(&loop) < 0)
        return -1;
    start = epoch_start_create(2, 2);
    start->epoch = EPOCH;
    start->line = LINE;
    start->members[1] = start->placement[1] = 1; /* rank 1 is on node 1; node 0 has all images */
    open_side(0);
    open_side(1);
    parts_commit(sides[0].job.store, LINE);
    return 0;
}

static int teardown(void **state)
{
    while (in_transit) { /* the fabric ends what is on its way */
        struct transit *first = in_transit;
        in_transit = first->next;
        if (!first->is_word)
            first->done(first->context, ECONNRESET);
        free(first);
    }
    for (unsigned i = 0; i < 2; i++) {
        fetch_destroy(sides[i].fetch);
        store_destroy(sides[i].job.store, true);
    }
    free(start);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop) < 0 ? -1 : parts_teardown(state);
}

static void begin(void)
{
    sides[1].told = 0;
    assert_int_equal(fetch_start(sides[1].fetch, on_done, &sides[1], NULL), 0);
}

static void assert_failed(const char *why)
{
    assert_int_equal(sides[1].told, 1);
    assert_int_equal(sides[1].err.code, EREMOTEIO);
    assert_non_null(strstr(sides[1].err.text, why));
    assert_int_equal(sides[1].machine.images, 0);
    assert_int_equal(store_image_line(sides[1].job.store, 1), 0);
}

/* ---- tests ---- */

static void an_image_is_fetched(void **state)
{
    (void)state;
    begin();
    deliver(NULL);
    assert_int_equal(sides[1].err.code, 0);
    assert_int_equal(sides[1].machine.images, 1);
    assert_int_equal(parts_line(store_image(sides[1].job.store, 1)), LINE);
    for (uint64_t page = 0; page < 4; page++)
        assert_int_equal(parts_byte(store_image(sides[1].job.store, 1), page),
                         parts_byte(store_image(sides[0].job.store, 1), page));
    assert_int_equal(store_image(sides[1].job.store, 0), -1);
    assert_int_equal(store_image_pins(sides[0].job.store, 1), 0);
    assert_true(sides[1].job.fetch_ms > 0);
}

/* The arbiter's decision tells the root of what is to come. */
static void another_image_is_refused(void **state)
{
    (void)state;
    fetch_destroy(sides[1].fetch);
    assert_int_equal(root_of_image(store_image(sides[0].job.store, 1), -1, &start->roots[1], NULL), 0);
    sides[1].fetch = fetch_create(&sides[1].job, &sides[1].remotes, start, NULL);
    setenv("BELAY_FAULT", "agent.fetch.send@1=error", 1);
    begin();
    deliver(NULL);
    assert_failed("what has come is another image than the one that was committed");
    assert_int_equal(sides[1].machine.refuted, 1);
    unsetenv("BELAY_FAULT");
}

static void the_image_with_the_root_is_fetched(void **state)
{
    struct digest roots[4];
    (void)state;
    fetch_destroy(sides[1].fetch);
    assert_int_equal(root_of_image(store_image(sides[0].job.store, 1), -1, &start->roots[1], NULL), 0);
    sides[1].fetch = fetch_create(&sides[1].job, &sides[1].remotes, start, NULL);
    begin();
    deliver(NULL);
    assert_int_equal(sides[1].machine.images, 1);
    assert_int_equal(sides[1].machine.refuted, 0);
    store_list_roots(sides[1].job.store, roots);
    assert_true(digest_is_equal(&roots[2], &start->roots[1]));
}

static void it_is_pinned_on_its_way(void **state)
{
    (void)state;
    begin();
    deliver_one(NULL); /* the word */
    assert_int_equal(store_image_pins(sides[0].job.store, 1), 1);
    fetch_destroy(sides[0].fetch);
    sides[0].fetch = NULL;
    assert_int_equal(store_image_pins(sides[0].job.store, 1), 0);
    deliver(NULL);
    assert_failed("rank 1 cannot be fetched from node 0");
}

static void what_is_not_held_is_told(void **state)
{
    (void)state;
    store_note_damage(sides[0].job.store, 1);
    begin();
    deliver(NULL);
    assert_failed("it is not held there");
}

/* Node 0 has what the group of rank 1 shares, too; the root of the decision is the sum of both. */
static void share(void)
{
    const struct store_fetched fetched = {.rank = 3, .fd = parts_image(LINE, 3), .bytes = BYTES};
    struct digest shared;
    assert_int_equal(store_take_images(sides[0].job.store, LINE, 2, &fetched, 1, NULL), 0);
    assert_int_equal(root_of_image(store_image(sides[0].job.store, 1), -1, &start->roots[1], NULL), 0);
    assert_int_equal(root_of_image(store_image(sides[0].job.store, 3), -1, &shared, NULL), 0);
    start->roots[1] = digest_sum(&start->roots[1], &shared);
    for (unsigned i = 0; i < 2; i++) {
        fetch_destroy(sides[i].fetch);
        sides[i].fetch = fetch_create(&sides[i].job, &sides[i].remotes, start, NULL);
        assert_non_null(sides[i].fetch);
    }
}

static void what_is_shared_is_fetched_with_its_rank(void **state)
{
    (void)state;
    share();
    begin();
    deliver(NULL);
    assert_int_equal(sides[1].err.code, 0);
    assert_int_equal(sides[1].machine.images, 1);
    assert_int_equal(parts_line(store_image(sides[1].job.store, 1)), LINE);
    assert_int_equal(parts_line(store_image(sides[1].job.store, 3)), LINE);
    const struct digest root = store_image_root(sides[1].job.store, 1);
    assert_true(digest_is_equal(&root, &start->roots[1]));
}

static void another_image_of_what_is_shared_is_refused(void **state)
{
    (void)state;
    share();
    setenv("BELAY_FAULT", "agent.fetch.send@3=error", 1);
    begin();
    deliver(NULL);
    assert_failed("what it shares, cannot be fetched from node 0: what has come is another image");
    assert_int_equal(sides[1].machine.refuted, 1);
    unsetenv("BELAY_FAULT");
}

static void a_lost_link_is_told(void **state)
{
    const struct remotes_ops *ops = sides[1].remotes.ops;
    (void)state;
    begin();
    ops->lost(sides[1].remotes.ops_context, 5); /* of another node */
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(sides[1].told, 0);
    ops->lost(sides[1].remotes.ops_context, 0);
    ops->lost(sides[1].remotes.ops_context, 0);
    deliver(NULL);
    assert_failed("the link to it is lost");
}

static void memory_is_short(void **state)
{
    (void)state;
    sides[1].settings.memory_bytes = 1;
    begin();
    deliver(NULL);
    assert_failed("there is not enough memory for it");
}

/* Nobody hears of the end, and nothing is kept. */
static void nobody_waits_any_more(void **state)
{
    (void)state;
    begin();
    deliver_one(NULL);
    deliver_one(NULL); /* it is being checked */
    fetch_destroy(sides[1].fetch);
    sides[1].fetch = NULL;
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(sides[1].told, 0);
    assert_int_equal(store_image_line(sides[1].job.store, 1), 0);
}

static struct fetch_note note_of(enum fetch_note_kind kind, uint32_t rank)
{
    return (struct fetch_note){
        .magic = FETCH_NOTE_MAGIC, .kind = kind, .epoch = EPOCH, .part = rank, .ranks = 2, .line = LINE};
}

static void say_to(unsigned side, uint32_t node, const struct fetch_note *note, size_t bytes)
{
    sides[side].remotes.ops->word(sides[side].remotes.ops_context, node, (const uint8_t *)note, bytes);
}

/* Only the member that runs the rank gets the image, and only of this epoch and line. */
static void it_is_lent_to_nobody_else(void **state)
{
    const struct fetch_note own = note_of(FETCH_NOTE_WANT, 1), other = note_of(FETCH_NOTE_WANT, 0);
    struct fetch_note wrong[4] = {own, own, own, own};
    (void)state;
    wrong[0].epoch++;
    wrong[1].line--;
    wrong[2].part = 4;
    wrong[3].magic++;
    for (unsigned i = 0; i < 4; i++)
        say_to(0, 1, &wrong[i], sizeof wrong[i]);
    say_to(0, 1, &own, sizeof own - 1);
    assert_null(in_transit);
    say_to(0, 5, &own, sizeof own);   /* from a node that does not run it */
    say_to(0, 1, &other, sizeof own); /* of a rank that runs here */
    for (unsigned i = 0; i < 2; i++) {
        struct fetch_note answer;
        assert_non_null(in_transit);
        assert_true(in_transit->is_word);
        memcpy(&answer, in_transit->tag, sizeof answer);
        assert_int_equal(answer.kind, FETCH_NOTE_REFUSED);
        assert_int_equal(answer.error, EPERM);
        deliver_one(NULL);
    }
    say_to(0, 1, &own, sizeof own);
    say_to(0, 1, &own, sizeof own); /* once is enough */
    assert_non_null(in_transit);
    assert_null(in_transit->next);
}

/* An image that nobody has asked for, of the wrong rank, or from the wrong node. */
static void only_what_is_wanted_is_taken(void **state)
{
    const struct remotes *to = &sides[1].remotes;
    struct fetch_note tag = note_of(FETCH_NOTE_IMAGE, 1);
    struct transfer_intake intake;
    (void)state;
    assert_int_equal(to->ops->offered(to->ops_context, 0, &tag, sizeof tag, BYTES, &intake), EPERM);
    begin();
    assert_int_equal(to->ops->offered(to->ops_context, 5, &tag, sizeof tag, BYTES, &intake), EPERM);
    tag.part = 0;
    assert_int_equal(to->ops->offered(to->ops_context, 0, &tag, sizeof tag, BYTES, &intake), EPERM);
    tag.part = 1;
    tag.kind = FETCH_NOTE_WANT;
    assert_int_equal(to->ops->offered(to->ops_context, 0, &tag, sizeof tag, BYTES, &intake), EPROTO);
    tag.kind = FETCH_NOTE_IMAGE;
    assert_int_equal(to->ops->offered(to->ops_context, 0, &tag, sizeof tag, BYTES, &intake), 0);
    struct transfer_intake second;
    assert_int_equal(to->ops->offered(to->ops_context, 0, &tag, sizeof tag, BYTES, &second), EALREADY);
    intake.done(intake.context, ECONNRESET);
    deliver(NULL);
    assert_failed("the link to it is lost");
}

/* Whatever comes: it is the image, or it is not kept. */
static void damaged_data_are_not_kept(void **state)
{
    struct fuzz fuzz = fuzz_begin("damaged images");
    unsigned failed = 0, rounds = fuzz_rounds(ROUNDS);
    (void)state;
    for (unsigned round = 0; round < rounds; round++) {
        fetch_destroy(sides[1].fetch);
        store_destroy(sides[1].job.store, true);
        open_side(1);
        begin();
        deliver(&fuzz);
        if (sides[1].err.code == 0) {
            for (uint64_t page = 0; page < 4; page++)
                assert_int_equal(parts_byte(store_image(sides[1].job.store, 1), page), LINE);
            continue;
        }
        assert_failed("cannot be fetched from node 0");
        failed++;
    }
    assert_true(failed > rounds / 2);
}

/* ---- images that come while their ranks run ---- */

static unsigned whole_told;

static void on_whole(struct job *job, uint32_t rank)
{
    assert_ptr_equal(job, &sides[1].job);
    assert_int_equal(rank, 1);
    whole_told++;
}

/* Its tables have come, and no page. */
static struct load *begin_load(void)
{
    if (!uffd_demand_works())
        skip();
    sides[1].settings.restore = (char *)"demand";
    whole_told = 0;
    loads_tell(fetch_loads(sides[1].fetch), on_whole);
    begin();
    while (sides[1].told == 0) {
        if (in_transit &&
            (in_transit->is_word ? !loads_count(fetch_loads(sides[1].fetch)) : in_transit->to == 1))
            deliver_one(NULL);
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(sides[1].err.code, 0);
    return loads_find(fetch_loads(sides[1].fetch), 1);
}

static void deliver_load(struct fuzz *damage)
{
    while (loads_count(fetch_loads(sides[1].fetch)) > 0 && (in_transit || uv_loop_alive(&loop))) {
        while (in_transit)
            deliver_one(damage);
        uv_run(&loop, UV_RUN_NOWAIT);
    }
}

/* The rank may be launched; nobody takes what is here for an image before all of it is. */
static void an_image_is_loaded(void **state)
{
    (void)state;
    const struct load *load = begin_load();
    assert_non_null(load);
    assert_int_equal(sides[1].machine.images, 1);
    assert_int_equal(parts_line(load_fd(load)), LINE);
    assert_int_equal(store_image(sides[1].job.store, 1), -1);
    assert_int_equal(store_image_line(sides[1].job.store, 1), 0);
    assert_int_equal(load_figures(load).here_bytes, 0);
    assert_int_equal(load_figures(load).bytes, 4 * PAGE);
    assert_int_equal(store_image_pins(sides[0].job.store, 1), 1);
    int fd = dup(load_fd(load));
    deliver_load(NULL);
    assert_int_equal(whole_told, 1);
    while (in_transit) /* that it is over */
        deliver_one(NULL);
    assert_int_equal(store_image_pins(sides[0].job.store, 1), 0);
    assert_int_equal(parts_line(store_image(sides[1].job.store, 1)), LINE);
    for (uint64_t page = 0; page < 4; page++)
        assert_int_equal(parts_byte(fd, page), LINE); /* the memfd that the rank was given */
    const struct digest root = store_image_root(sides[1].job.store, 1);
    struct digest wanted;
    assert_int_equal(root_of_image(store_image(sides[0].job.store, 1), -1, &wanted, NULL), 0);
    assert_true(digest_is_equal(&root, &wanted));
    close(fd);
}

/* Whatever comes in place of its pages: none of it gets into the memfd, or all of it is the image's. */
static void damaged_pages_are_not_loaded(void **state)
{
    struct fuzz fuzz = fuzz_begin("damaged pages");
    unsigned failed = 0, rounds = fuzz_rounds(ROUNDS);
    (void)state;
    for (unsigned round = 0; round < rounds; round++) {
        fetch_destroy(sides[1].fetch);
        store_destroy(sides[1].job.store, true);
        while (in_transit)
            deliver_one(NULL);
        fetch_destroy(sides[0].fetch); /* it would wait for the end of the former load */
        sides[0].fetch = fetch_create(&sides[0].job, &sides[0].remotes, start, NULL);
        open_side(1);
        const struct load *load = begin_load();
        int fd = dup(load_fd(load));
        while (in_transit)
            deliver_one(&fuzz);
        for (int i = 0; i < 100 && !whole_told && loads_count(fetch_loads(sides[1].fetch)); i++)
            uv_run(&loop, UV_RUN_ONCE);
        if (whole_told == 0) {
            failed++;
            assert_int_equal(store_image_line(sides[1].job.store, 1), 0);
        }
        for (uint64_t page = 0; page < 4; page++)
            assert_int_equal(parts_byte(fd, page), whole_told ? LINE : 0);
        close(fd);
    }
    assert_true(failed > rounds / 2);
}

/* Pages are sent to nobody but the member that loads the image, and no others than it has. */
static void other_pages_are_refused(void **state)
{
    struct fetch_note word = note_of(FETCH_NOTE_WANT_PAGES, 1), answer;
    (void)state;
    word.bytes = PAGE;
    say_to(0, 1, &word, sizeof word); /* before the tables */
    memcpy(&answer, in_transit->tag, sizeof answer);
    assert_int_equal(answer.kind, FETCH_NOTE_REFUSED);
    deliver_one(NULL);
    begin_load();
    while (in_transit)
        deliver_one(NULL);
    const uint64_t wrong[][2] = {{0, 0}, {0, 5 * PAGE}, {4 * PAGE, 1}, {UINT64_MAX, 2}, {PAGE, UINT64_MAX}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        word.offset = wrong[i][0];
        word.bytes = wrong[i][1];
        say_to(0, 1, &word, sizeof word);
        assert_true(in_transit->is_word);
        memcpy(&answer, in_transit->tag, sizeof answer);
        assert_int_equal(answer.kind, FETCH_NOTE_REFUSED);
        free(in_transit);
        in_transit = NULL;
    }
    word.offset = 0;
    word.bytes = PAGE;
    say_to(0, 5, &word, sizeof word);
    assert_true(in_transit->is_word);
    free(in_transit);
    in_transit = NULL;
}

static void a_lost_link_ends_a_load(void **state)
{
    const struct remotes_ops *ops = sides[1].remotes.ops;
    (void)state;
    begin_load();
    ops->lost(sides[1].remotes.ops_context, 0);
    for (int i = 0; i < 3; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(whole_told, 0);
    assert_int_equal(loads_count(fetch_loads(sides[1].fetch)), 1); /* no line is to begin */
    assert_int_equal(store_image_line(sides[1].job.store, 1), 0);
}

/* What it shares has to be there first. */
static void what_is_shared_is_not_loaded(void **state)
{
    (void)state;
    if (!uffd_demand_works())
        skip();
    share();
    sides[1].settings.restore = (char *)"demand";
    begin();
    deliver(NULL);
    assert_int_equal(sides[1].err.code, 0);
    assert_int_equal(loads_count(fetch_loads(sides[1].fetch)), 0);
    assert_int_equal(parts_line(store_image(sides[1].job.store, 1)), LINE);
    assert_int_equal(parts_line(store_image(sides[1].job.store, 3)), LINE);
    assert_int_equal(store_image_pins(sides[0].job.store, 1), 0);
}

/* The group that its rank is of: the part has the number of another one. */
static void a_rank_of_a_group_that_shares_is_not_loaded(void **state)
{
    const struct store_fetched fetched = {.rank = 2, .fd = parts_image(LINE, 2), .bytes = BYTES};
    (void)state;
    if (!uffd_demand_works())
        skip();
    assert_int_equal(store_take_images(sides[0].job.store, LINE, 2, &fetched, 1, NULL), 0);
    assert_true(store_shares(sides[0].job.store, 1));
    sides[1].settings.restore = (char *)"demand";
    begin();
    deliver(NULL);
    assert_int_equal(sides[1].err.code, 0);
    assert_int_equal(loads_count(fetch_loads(sides[1].fetch)), 0);
    assert_int_equal(parts_line(store_image(sides[1].job.store, 1)), LINE);
    assert_int_equal(store_image_pins(sides[0].job.store, 1), 0);
}

/* Which parts were written lately: whatever is told, or nothing, the image is the same. */
static void any_touched_set_will_do(void **state)
{
    static const char *const faults[] = {"", "agent.load.touched=error"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        if (i > 0)
            setenv("BELAY_FAULT", faults[i - 1], 1);
        sides[1].settings.has_touched_window_ms = i == 0; /* nothing is asked */
        const struct load *load = begin_load();
        assert_non_null(load);
        int fd = dup(load_fd(load));
        deliver_load(NULL);
        assert_int_equal(whole_told, 1);
        for (uint64_t page = 0; page < 4; page++)
            assert_int_equal(parts_byte(fd, page), LINE);
        close(fd);
        while (in_transit)
            deliver_one(NULL);
        fetch_destroy(sides[1].fetch);
        store_destroy(sides[1].job.store, true);
        open_side(1);
    }
    unsetenv("BELAY_FAULT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(an_image_is_fetched),
        TEST(it_is_pinned_on_its_way),
        TEST(what_is_not_held_is_told),
        TEST(a_lost_link_is_told),
        TEST(memory_is_short),
        TEST(nobody_waits_any_more),
        TEST(it_is_lent_to_nobody_else),
        TEST(only_what_is_wanted_is_taken),
        TEST(another_image_is_refused),
        TEST(the_image_with_the_root_is_fetched),
        TEST(damaged_data_are_not_kept),
        TEST(what_is_shared_is_fetched_with_its_rank),
        TEST(another_image_of_what_is_shared_is_refused),
        TEST(an_image_is_loaded),
        TEST(damaged_pages_are_not_loaded),
        TEST(other_pages_are_refused),
        TEST(a_lost_link_ends_a_load),
        TEST(what_is_shared_is_not_loaded),
        TEST(a_rank_of_a_group_that_shares_is_not_loaded),
        TEST(any_touched_set_will_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
