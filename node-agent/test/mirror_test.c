/*
 * mirror_test.c - copies between two members over a link that the test makes: what is sent and taken, who is
 * believed, what damaged notes and data do. The machine (job/membership.h) is the test's, too.
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

#include "common/image/spoil.h"
#include "common/test/fuzz.h"
#include "node-agent/member/mirror.h"
#include "node-agent/test/store_parts.h"

#define EPOCH 3u
#define ROOM (1u << 20) /* of all that a transfer brings here */
#define ROUNDS 3000

/* As mirror_out.c writes it. */
struct note {
    uint32_t magic, kind, epoch, part, ranks;
    int32_t error;
    uint64_t packing;
    uint64_t line, base_line;
    struct digest root;
};
enum { PART = 1, HELD, NEED_BASE, REFUSED };

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

/* A node: its end of the link, its machine, and what both were told. */
struct remotes {
    const struct remotes_ops *ops;
    void *ops_context;
};
struct membership {
    uint64_t line;
    struct mirror *mirror;
    unsigned held, lacking, admitted, not_admitted;
};
static struct side {
    struct remotes remotes;
    struct membership machine;
    struct agent agent;
    Belay__Wire__JobOpen config;
    Belay__Wire__JobSettings settings;
    struct job job;
    char failure[512];
    bool is_refuted; /* the failure */
} sides[2];
static struct transit *in_transit;
static uv_loop_t loop;
static const uint32_t members[] = {0, 1}, placement[] = {0, 1};

/* ---- the link ---- */

static unsigned side_of(const struct remotes *remotes)
{
    return remotes == &sides[1].remotes;
}

void remotes_hear(struct remotes *remotes, enum remotes_subject subject, const struct remotes_ops *ops,
                  void *context)
{
    assert_int_equal(subject, REMOTES_COPIES);
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
    assert_int_equal(subject, REMOTES_COPIES);
    struct transit *word = put(remotes, bytes, count);
    assert_int_equal(node, word->to);
    word->is_word = true;
    return 0;
}

int remotes_push(struct remotes *remotes, enum remotes_subject subject, uint32_t node, const void *tag,
                 size_t tag_bytes, uint64_t bytes, fabric_fill_f *fill, transfer_done_f *done, void *context)
{
    assert_int_equal(subject, REMOTES_COPIES);
    struct transit *push = put(remotes, tag, tag_bytes);
    assert_int_equal(node, push->to);
    push->bytes = bytes;
    push->fill = fill;
    push->done = done;
    push->context = context;
    return 0;
}

static unsigned count_transit(void)
{
    unsigned count = 0;
    for (const struct transit *at = in_transit; at; at = at->next)
        count++;
    return count;
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
    int error = to->ops ? to->ops->offered(to->ops_context, 1 - push->to, push->tag, push->tag_bytes,
                                           push->bytes, &intake)
                        : ENOTSUP;
    if (error)
        return error;
    while (got > 0 && (got = push->fill(push->context, bytes + count, (sizeof bytes - count) / 3)) > 0)
        count += (size_t)got;
    error = got < 0 ? errno : 0;
    assert_true(error || count <= push->bytes);
    if (!error && damage)
        fuzz_damage(damage, bytes, &count, sizeof bytes);
    if (!error)
        error = give(&intake, bytes, count);
    intake.done(intake.context, error);
    return error;
}

/* The oldest thing that is on its way. */
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

/* All that follows from it, too; whole images are made in threads. */
static void deliver(void)
{
    do {
        while (in_transit)
            deliver_one(NULL);
        uv_run(&loop, UV_RUN_DEFAULT);
    } while (in_transit);
}

/* ---- the machine ---- */

uint64_t membership_line(const struct membership *machine)
{
    return machine->line;
}

void membership_held(struct membership *machine, uint64_t line, uint32_t rank)
{
    assert_int_equal(line, machine->line);
    assert_int_equal(placement[rank], machine == &sides[1].machine);
    machine->held++;
}

void membership_need_base(struct membership *machine, uint64_t line, uint32_t rank)
{
    machine->lacking++;
    mirror_send(machine->mirror, line, rank, 1 - placement[rank], true);
}

/* As coord/member.c does it. */
int membership_data(struct membership *machine, uint32_t node, uint64_t line, uint32_t rank,
                    uint64_t base_line, uint64_t image_line)
{
    bool has_base = base_line == 0 || base_line == image_line;
    if (has_base && mirror_admit(machine->mirror, line, rank) < 0) {
        machine->not_admitted++;
        return -1;
    }
    machine->admitted += has_base;
    mirror_answer(machine->mirror, node, line, rank, has_base);
    return 0;
}

static void on_failed(void *context, uint64_t line, const char *reason, bool is_refuted)
{
    struct side *side = context;
    assert_int_equal(line, side->machine.line);
    snprintf(side->failure, sizeof side->failure, "%s", reason);
    side->is_refuted = is_refuted;
}

/* ---- two members, each with one rank ---- */

static void open_side(unsigned i)
{
    struct side *side = &sides[i];
    char name[] = "job-0";
    name[4] = (char)('0' + i);
    *side = (struct side){.agent.loop = &loop};
    side->settings = (Belay__Wire__JobSettings)BELAY__WIRE__JOB_SETTINGS__INIT;
    side->config = (Belay__Wire__JobOpen)BELAY__WIRE__JOB_OPEN__INIT;
    side->config.settings = &side->settings;
    side->config.node = i;
    side->job = (struct job){.agent = &side->agent, .config = &side->config, .membership = &side->machine};
    side->job.store = store_create(parts_keeper, name, NULL);
    assert_non_null(side->job.store);
    const struct mirror_epoch epoch = {.job = &side->job,
                                       .remotes = &side->remotes,
                                       .number = EPOCH,
                                       .node = i,
                                       .world = 2,
                                       .count = 1,
                                       .member_count = 2,
                                       .members = members,
                                       .placement = placement};
    side->machine.mirror = mirror_create(&epoch, on_failed, side);
    assert_non_null(side->machine.mirror);
}

static int setup(void **state)
{
    if (parts_setup(state) < 0 || uv_loop_init(&loop) < 0)
        return -1;
    open_side(0);
    open_side(1);
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
        mirror_destroy(sides[i].machine.mirror);
        store_destroy(sides[i].job.store, true);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop) < 0 ? -1 : parts_teardown(state);
}

/* Rank 0 of side 0; a part of the line is staged there: its own, or what it shares. base_line 0: an image. */
static void stage_part(uint64_t line, uint64_t base_line, uint32_t part)
{
    struct store_item item = {.rank = part,
                              .ranks = 2,
                              .here = 1,
                              .fd = base_line ? parts_delta(line, base_line, part) : parts_image(line, part),
                              .bytes = base_line ? PAGE : BYTES,
                              .base_line = base_line,
                              .image_bytes = BYTES};
    assert_int_equal(store_stage(sides[0].job.store, line, &item, NULL), 0);
    sides[0].machine.line = sides[1].machine.line = line;
}

static void stage(uint64_t line, uint64_t base_line)
{
    stage_part(line, base_line, 0);
}

static void send_part(uint64_t line, bool is_whole)
{
    mirror_send(sides[0].machine.mirror, line, 0, 1, is_whole);
}

static void commit(unsigned side, uint64_t line)
{
    struct commit_entry entry = {.line = line};
    struct belay_error err = {0};
    if (store_commit(sides[side].job.store, &entry, &err) < 0 ||
        store_apply_rest(sides[side].job.store, &err) < 0)
        fail_msg("%s", err.text);
}

/* Side 1 has a part of its own in each line. */
static void commit_both(uint64_t line)
{
    struct store_item own = {
        .rank = 1, .ranks = 2, .here = 1, .fd = parts_image(line, 1), .bytes = BYTES, .image_bytes = BYTES};
    assert_int_equal(store_stage(sides[1].job.store, line, &own, NULL), 0);
    commit(0, line);
    commit(1, line);
}

static void copy_and_commit(uint64_t line)
{
    send_part(line, false);
    deliver();
    commit_both(line);
}

static void copy_line(uint64_t line, uint64_t base_line)
{
    stage(line, base_line);
    copy_and_commit(line);
}

static void expect_no_failure(void)
{
    assert_string_equal(sides[0].failure, "");
    assert_string_equal(sides[1].failure, "");
}

/* ---- tests ---- */

static void images_and_deltas_are_copied(void **state)
{
    (void)state;
    copy_line(1, 0);
    assert_int_equal(sides[0].machine.held, 1);
    assert_int_equal(parts_line(store_image(sides[1].job.store, 0)), 1);
    assert_int_equal(parts_byte(store_image(sides[1].job.store, 0), 3), 1);
    uint64_t sent = mirror_sent(sides[0].machine.mirror, 1).bytes;
    assert_true(sent > BYTES);
    copy_line(2, 1);
    assert_int_equal(sides[0].machine.held, 2);
    assert_int_equal(sides[0].machine.lacking, 0);
    parts_expect_applied(store_image(sides[1].job.store, 0), 1, 2);
    assert_in_range(mirror_sent(sides[0].machine.mirror, 2).bytes, PAGE, sent);
    assert_int_equal(mirror_sent(sides[0].machine.mirror, 1).bytes, 0);
    expect_no_failure();
}

/* The delta's only page is filled with the lowest byte of its line, as the image's page is: nothing of it is
 * sent. */
static void lines_that_changed_are_copied(void **state)
{
    (void)state;
    const uint64_t same = 257;
    sides[0].settings.granularity = (char *)"line";
    copy_line(1, 0);
    copy_line(same, 1);
    const struct peer_sent sent = mirror_sent(sides[0].machine.mirror, same);
    assert_int_equal(sides[0].machine.held, 2);
    parts_expect_applied(store_image(sides[1].job.store, 0), 1, same);
    assert_int_equal(sent.line_parts, 1);
    assert_int_equal(sent.page_parts, 0);
    assert_true(sent.bytes < PAGE && sent.page_bytes > PAGE);
    copy_line(same + 1, same); /* all of its bytes change: lines would take more than the page */
    assert_int_equal(mirror_sent(sides[0].machine.mirror, same + 1).page_parts, 1);
    parts_expect_applied(store_image(sides[1].job.store, 0), 1, same + 1);
    sides[0].settings.granularity = (char *)"page";
    copy_line(2 * 256 + 2, same + 1);
    assert_int_equal(mirror_sent(sides[0].machine.mirror, 2 * 256 + 2).page_parts, 1);
    assert_true(mirror_sent(sides[0].machine.mirror, 2 * 256 + 2).bytes > PAGE);
    expect_no_failure();
}

/* A new partner: it asks for a whole image before a byte of the delta has gone, and gets it. */
static void base_that_lacks_is_made_good(void **state)
{
    (void)state;
    stage(1, 0);
    commit(0, 1);
    stage(2, 1);
    send_part(2, false);
    deliver();
    assert_int_equal(sides[0].machine.lacking, 1);
    assert_int_equal(sides[0].machine.held, 1);
    assert_int_equal(sides[1].machine.admitted, 1);
    commit_both(2);
    parts_expect_applied(store_image(sides[1].job.store, 0), 1, 2);
    expect_no_failure();
}

/* The rank is held when both are. The machine knows ranks only: of what is shared the mirror makes an image.
 */
static void what_is_shared_goes_with_its_rank(void **state)
{
    (void)state;
    stage(1, 0);
    stage_part(1, 0, 2);
    copy_and_commit(1);
    stage(2, 0);
    stage_part(2, 1, 2);
    store_note_damage(sides[1].job.store, 2); /* so it lacks the base */
    copy_and_commit(2);
    assert_int_equal(sides[0].machine.held, 2);
    assert_int_equal(sides[0].machine.lacking, 0);
    parts_expect_applied(store_image(sides[1].job.store, 2), 1, 2);
    expect_no_failure();
}

static void few_are_sent_at_a_time(void **state)
{
    (void)state;
    stage(1, 0);
    for (unsigned i = 0; i < 10; i++)
        send_part(1, false);
    assert_int_equal(count_transit(), 4);
    deliver_one(NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(count_transit(), 5); /* the fifth has taken its place, and a word comes back */
    mirror_cancel(sides[0].machine.mirror);
    expect_no_failure();
}

/* The line is over: what is on its way comes to nothing, and nobody is told. */
static void cancelled_parts_are_forgotten(void **state)
{
    (void)state;
    stage(1, 0);
    for (unsigned i = 0; i < 6; i++)
        send_part(1, false);
    mirror_cancel(sides[0].machine.mirror);
    deliver();
    assert_int_equal(sides[0].machine.held, 0);
    assert_int_equal(sides[1].machine.admitted, 0);
    expect_no_failure();
    stage(2, 0);
    send_part(2, false);
    deliver();
    assert_int_equal(sides[0].machine.held, 1);
}

static void nothing_staged_is_told(void **state)
{
    (void)state;
    sides[0].machine.line = 5;
    send_part(5, false);
    assert_string_equal(sides[0].failure, "rank 0 cannot be copied to node 1: nothing is staged of it");
}

static void lost_link_fails_the_line(void **state)
{
    (void)state;
    const struct remotes *remotes = &sides[0].remotes;
    stage(1, 0);
    remotes->ops->lost(remotes->ops_context, 0); /* not the partner */
    expect_no_failure();
    remotes->ops->lost(remotes->ops_context, 1);
    assert_string_equal(sides[0].failure, "the link to node 1 is lost");
    sides[0].failure[0] = '\0';
    sides[0].machine.line = 0; /* between two lines nothing is lost */
    remotes->ops->lost(remotes->ops_context, 1);
    expect_no_failure();
}

/* The tag of the part that is on its way. */
static struct note tag_of_transit(void)
{
    struct note note;
    assert_int_equal(in_transit->tag_bytes, sizeof note);
    memcpy(&note, in_transit->tag, sizeof note);
    return note;
}

static int offer(uint32_t from, const struct note *note, size_t count, uint64_t bytes)
{
    struct transfer_intake intake;
    const struct remotes *to = &sides[1].remotes;
    int error = to->ops->offered(to->ops_context, from, note, count, bytes, &intake);
    if (error == 0)
        intake.done(intake.context, ECONNRESET);
    return error;
}

static void offers_are_checked(void **state)
{
    (void)state;
    stage(1, 0);
    send_part(1, false);
    const struct note right = tag_of_transit();
    struct note note = right;
    assert_int_equal(offer(0, &right, sizeof right, BYTES), 0);
    assert_int_equal(offer(0, &right, sizeof right - 1, BYTES), EPROTO);
    assert_int_equal(offer(1, &right, sizeof right, BYTES), EPERM); /* the rank is not that node's */
    note.part = 1;
    assert_int_equal(offer(0, &note, sizeof note, BYTES), EPERM);
    note.part = 2; /* what its group shares is */
    assert_int_equal(offer(0, &note, sizeof note, BYTES), 0);
    note.part = 3;
    assert_int_equal(offer(0, &note, sizeof note, BYTES), EPERM);
    note.part = 4; /* parity */
    assert_int_equal(offer(0, &note, sizeof note, BYTES), EPROTO);
    note.part = 6; /* tables alone */
    assert_int_equal(offer(0, &note, sizeof note, BYTES), EPERM);
    note.part = 8;
    assert_int_equal(offer(0, &note, sizeof note, BYTES), EPROTO);
    note = right;
    note.epoch--;
    assert_int_equal(offer(0, &note, sizeof note, BYTES), EPROTO);
    note = right;
    note.line = 2;
    assert_int_equal(offer(0, &note, sizeof note, BYTES), ECANCELED);
    note = right;
    note.kind = HELD;
    assert_int_equal(offer(0, &note, sizeof note, BYTES), EPERM);
    sides[1].settings.memory_bytes = 1 << 20;
    assert_int_equal(offer(0, &right, sizeof right, 1 << 21), ENOMEM);
    sides[1].machine.line = 0; /* no line is in progress here */
    assert_int_equal(offer(0, &right, sizeof right, BYTES), ECANCELED);
    assert_int_equal(sides[1].machine.admitted, 0);
}

static void say_to_first(uint32_t from, const struct note *note, size_t count)
{
    const struct remotes *to = &sides[0].remotes;
    to->ops->word(to->ops_context, from, (const uint8_t *)note, count);
}

static void words_are_checked(void **state)
{
    (void)state;
    stage(1, 0);
    send_part(1, false);
    uv_run(&loop, UV_RUN_DEFAULT); /* the root of what is here */
    struct note held = tag_of_transit();
    held.kind = HELD;
    held.root = store_staged_root(sides[0].job.store, 1, 0);
    assert_true(digest_is_known(&held.root));
    say_to_first(0, &held, sizeof held); /* not the partner */
    say_to_first(1, &held, sizeof held - 1);
    struct note wrong = held;
    wrong.line = 2;
    say_to_first(1, &wrong, sizeof wrong);
    wrong = held;
    wrong.part = 1; /* runs elsewhere */
    say_to_first(1, &wrong, sizeof wrong);
    wrong = held;
    wrong.magic++;
    say_to_first(1, &wrong, sizeof wrong);
    assert_int_equal(sides[0].machine.held, 0);
    say_to_first(1, &held, sizeof held);
    assert_int_equal(sides[0].machine.held, 1);
    held.kind = REFUSED;
    held.error = ENOSPC;
    say_to_first(1, &held, sizeof held);
    assert_string_equal(sides[0].failure, "rank 0 cannot be copied to node 1: No space left on device");
    assert_false(sides[0].is_refuted);
}

/* Its sums fit: only its root tells that it is another image. The line is not protected. */
static void another_copy_is_no_copy(void **state)
{
    (void)state;
    stage(1, 0);
    send_part(1, false);
    uv_run(&loop, UV_RUN_DEFAULT);
    const struct note tag = tag_of_transit();
    struct note held = tag;
    held.kind = HELD;
    held.root = store_staged_root(sides[0].job.store, 1, 0);
    held.root.words[2] ^= 1;
    say_to_first(1, &held, sizeof held);
    assert_int_equal(sides[0].machine.held, 0);
    assert_string_equal(sides[0].failure,
                        "rank 0 cannot be copied to node 1: what it holds is another image");
    assert_true(sides[0].is_refuted);
}

/* The partner itself changes what has come, a delta and an image, and has all sums fit. */
static void a_partner_that_errs_is_found(void **state)
{
    (void)state;
    setenv("BELAY_FAULT", "agent.mirror.taken@0#1=error,agent.mirror.taken@0#3=error", 1);
    for (uint64_t line = 1; line <= 3; line++) {
        unsigned before = sides[0].machine.held;
        sides[0].failure[0] = '\0';
        stage(line, line == 3 ? 2 : 0);
        send_part(line, false);
        deliver();
        assert_int_equal(sides[0].machine.held - before, line == 2);
        assert_int_equal(strcmp(sides[0].failure, "") == 0, line == 2);
        if (line == 2)
            commit_both(line);
        else
            store_drop_staging(sides[1].job.store);
    }
    assert_non_null(strstr(sides[0].failure, "what it holds is another image"));
    unsetenv("BELAY_FAULT");
}

/* What is told of a line is the sum of its own ranks' roots; guests are told by their own node. */
static void roots_follow_the_images(void **state)
{
    (void)state;
    struct digest staged, roots[4];
    stage(1, 0);
    send_part(1, false);
    deliver();
    staged = store_staged_root(sides[0].job.store, 1, 0);
    const struct digest guest = store_staged_root(sides[1].job.store, 1, 0);
    const struct digest sum = store_sum_roots(sides[0].job.store, 1);
    const struct digest none = store_sum_roots(sides[1].job.store, 1);
    assert_true(digest_is_known(&staged) && digest_is_equal(&staged, &guest));
    assert_true(digest_is_equal(&staged, &sum) && !digest_is_known(&none));
    commit_both(1);
    copy_line(2, 1);
    for (unsigned i = 0; i < 2; i++) {
        struct store_damage damage;
        struct digest image;
        store_list_roots(sides[i].job.store, roots);
        image = roots[0];
        assert_false(digest_is_equal(&image, &staged));
        assert_int_equal(store_verify(sides[i].job.store, &damage, NULL), 0); /* it is the one of the image */
        assert_int_equal(damage.images, 0);
        store_list_roots(sides[i].job.store, roots);
        assert_true(digest_is_equal(&image, &roots[0]));
    }
    image_spoil(store_image(sides[1].job.store, 0));
    struct store_damage damage;
    assert_int_equal(store_verify(sides[1].job.store, &damage, NULL), 0);
    assert_int_equal(damage.images, 1);
    assert_non_null(strstr(damage.first.text, "another image"));
    assert_true(store_is_damaged(sides[1].job.store, 0));
}

/* A part that ends within a range is not kept, and its node hears why. */
static void short_part_is_refused(void **state)
{
    (void)state;
    stage(1, 0);
    send_part(1, false);
    const struct note tag = tag_of_transit();
    const struct remotes *to = &sides[1].remotes;
    const struct part_range_head {
        uint64_t offset, bytes;
    } head = {0, 4096};
    struct transfer_intake intake;
    assert_int_equal(to->ops->offered(to->ops_context, 0, &tag, sizeof tag, BYTES, &intake), 0);
    assert_int_equal(give(&intake, (const uint8_t *)&head, sizeof head), 0);
    intake.done(intake.context, 0);
    assert_int_equal(sides[1].machine.not_admitted, 1);
    in_transit->next->next = NULL; /* the word is behind the part */
    deliver();
    assert_non_null(strstr(sides[0].failure, "it was damaged on its way"));
}

/* Whatever comes as tag, word or data: no copy is kept whose header or tables are not sound, or of another
 * line. */
static void hostile_transfers(void **state)
{
    (void)state;
    struct fuzz fuzz = fuzz_begin("hostile transfers");
    unsigned kept = 0, refused = 0;
    for (unsigned round = 1; round <= fuzz_rounds(ROUNDS); round++) {
        stage(round, 0);
        send_part(round, false);
        struct note note = tag_of_transit();
        uint8_t bytes[2 * sizeof note];
        size_t count = sizeof note;
        memcpy(bytes, &note, sizeof note);
        fuzz_damage(&fuzz, bytes, &count, sizeof bytes);
        if (round % 3 == 0) {
            memcpy(in_transit->tag, bytes, count);
            in_transit->tag_bytes = count;
        } else if (round % 3 == 1) {
            sides[0].remotes.ops->word(sides[0].remotes.ops_context, 1, bytes, count);
        }
        unsigned before = sides[1].machine.admitted;
        deliver_one(round % 3 == 2 ? &fuzz : NULL);
        deliver();
        kept += sides[1].machine.admitted > before;
        refused += sides[1].machine.admitted == before;
        store_drop_staging(sides[0].job.store);
        store_drop_staging(sides[1].job.store);
        sides[0].failure[0] = sides[1].failure[0] = '\0';
    }
    printf("# %u kept, %u refused\n", kept, refused);
    assert_true(kept > 0 && refused > 0);
    assert_int_equal(store_held_bytes(sides[1].job.store), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(images_and_deltas_are_copied),
        TEST(lines_that_changed_are_copied),
        TEST(base_that_lacks_is_made_good),
        TEST(what_is_shared_goes_with_its_rank),
        TEST(few_are_sent_at_a_time),
        TEST(cancelled_parts_are_forgotten),
        TEST(nothing_staged_is_told),
        TEST(lost_link_fails_the_line),
        TEST(offers_are_checked),
        TEST(words_are_checked),
        TEST(another_copy_is_no_copy),
        TEST(a_partner_that_errs_is_found),
        TEST(roots_follow_the_images),
        TEST(short_part_is_refused),
        TEST(hostile_transfers),
    };
    return cmocka_run_group_tests_name("mirror", tests, NULL, NULL);
}
