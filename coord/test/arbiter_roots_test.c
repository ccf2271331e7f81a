/* arbiter_roots_test.c - what nodes hold is gone on from only if it is the line as it was committed. */
#include "coord/test/arbiter_fixture.h"

#define LINE 4u

/* What the three nodes hold and tell of line 4: each has its own rank's image, and its left neighbour's. */
struct answers {
    struct holding held[NODES][RANKS];
    struct digest roots[NODES][2 * RANKS];
    struct digest sum[NODES];
};

static struct digest root_of(uint32_t rank)
{
    return (struct digest){{1000 + rank, UINT64_MAX - rank, 7}};
}

static void fill(struct answers *answers)
{
    struct digest sum = {{0}};

    memset(answers, 0, sizeof(*answers));
    hold(answers->held, LINE);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const struct digest root = root_of(rank);

        sum = digest_sum(&sum, &root);
        for (uint32_t node = 0; node < NODES; node++)
            if (answers->held[node][rank].image_line)
                answers->roots[node][2 * rank] = root;
    }
    for (uint32_t node = 0; node < NODES; node++)
        answers->sum[node] = sum;
}

static struct arbiter_event answer_of(const struct answers *answers, uint32_t node, uint32_t epoch)
{
    struct arbiter_event event = committed(state_of(node, epoch, answers->held[node]), LINE);

    event.state.roots = answers->roots[node];
    event.state.committed_root = answers->sum[node];
    return event;
}

/* lost: this node does not answer; NODES: all do. */
static void answer_all(struct recorder *recorder, const struct answers *answers, uint32_t lost)
{
    for (uint32_t node = 0; node < NODES; node++)
        if (node != lost)
            step(recorder, answer_of(answers, node, 2));
    if (lost < NODES)
        step(recorder, (struct arbiter_event){.type = ARBITER_EVENT_GONE, .node = lost});
}

/* NULL: none. */
static const struct arbiter_refusal *only_refusal(const struct recorder *recorder)
{
    const struct arbiter_refusal *refusals;
    uint32_t count = arbiter_refusals(recorder->arbiter, &refusals);

    assert_in_range(count, 0, 1);
    return count ? refusals : NULL;
}

static void expect_refused(const struct recorder *recorder, uint32_t node, uint32_t rank)
{
    const struct arbiter_refusal *refusal = only_refusal(recorder);

    assert_non_null(refusal);
    assert_int_equal(refusal->node, node);
    assert_int_equal(refusal->rank, rank);
}

static void expect_stuck(const struct recorder *recorder, enum arbiter_want want)
{
    assert_int_equal(arbiter_wants(recorder->arbiter), want);
    assert_true(arbiter_is_stuck(recorder->arbiter));
    assert_int_equal(arbiter_record(recorder->arbiter)->epoch, 1);
}

static void what_was_committed_is_recorded(void **state)
{
    struct recorder *recorder = *state;
    struct answers answers;

    open_first(recorder, SCHEME_PARTNER);
    fill(&answers);
    answer_all(recorder, &answers, NODES);
    assert_null(only_refusal(recorder));
    assert_int_equal(recorder->durable->line, LINE);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const struct digest root = root_of(rank);

        assert_true(digest_is_equal(&recorder->durable->roots[rank], &root));
    }
}

/* Whichever of the two it is that has another image, the rank goes on from the other one's. */
static void another_image_is_left_aside(void **state)
{
    struct recorder *recorder = *state;
    struct answers answers;

    for (uint32_t liar = 1; liar <= 2; liar++) {
        free(recorder->durable);
        recorder->durable = NULL;
        open_first(recorder, SCHEME_PARTNER);
        fill(&answers);
        answers.roots[liar][2 * 1].words[0] ^= 1; /* of rank 1, which is on node 1; its copy is on node 2 */
        answer_all(recorder, &answers, NODES);
        expect_refused(recorder, liar, 1);
        assert_int_equal(recorder->durable->epoch, 2);
        assert_int_equal(recorder->durable->members[recorder->durable->holder[1]], 3 - liar);
    }
}

/* Also if it tells the sum that would fit: the others tell another one. */
static void a_sum_that_fits_the_lie_does_not_help(void **state)
{
    struct recorder *recorder = *state;
    struct answers answers;

    open_first(recorder, SCHEME_PARTNER);
    fill(&answers);
    answers.roots[2][2 * 1].words[0] += 5;
    answers.sum[2].words[0] += 5;
    answer_all(recorder, &answers, NODES);
    expect_refused(recorder, 2, 1);
    assert_int_equal(recorder->durable->members[recorder->durable->holder[1]], 1);
}

/* Node 1 is lost, and what node 2 tells of its copy does not make the sum: nobody else has the image. */
static void the_only_copy_is_another_one(void **state)
{
    struct recorder *recorder = *state;
    struct answers answers;

    open_first(recorder, SCHEME_PARTNER);
    fill(&answers);
    answers.roots[2][2 * 1].words[0] ^= 1;
    answer_all(recorder, &answers, 1);
    expect_stuck(recorder, ARBITER_WANT_ROOTS);
}

static void survivors_that_contradict_one_another(void **state)
{
    struct recorder *recorder = *state;
    struct answers answers;

    open_first(recorder, SCHEME_PARTNER);
    fill(&answers);
    answers.sum[2].words[3] ^= 1;
    answer_all(recorder, &answers, 1);
    expect_stuck(recorder, ARBITER_WANT_ROOTS);
}

/* The line was rolled forward to, or an agent of another version has its part: nothing can be compared. */
static void what_is_not_known_is_believed(void **state)
{
    struct recorder *recorder = *state;
    struct answers answers;

    open_first(recorder, SCHEME_PARTNER);
    fill(&answers);
    memset(answers.sum, 0, sizeof(answers.sum));
    answer_all(recorder, &answers, 1);
    assert_int_equal(recorder->durable->epoch, 2);
    free(recorder->durable);
    recorder->durable = NULL;
    open_first(recorder, SCHEME_PARTNER);
    fill(&answers);
    memset(answers.roots, 0, sizeof(answers.roots));
    answer_all(recorder, &answers, 1);
    assert_int_equal(recorder->durable->epoch, 2);
    assert_null(only_refusal(recorder));
}

/* Without a sum, nobody can tell which of two images was committed. */
static void two_images_without_a_sum(void **state)
{
    struct recorder *recorder = *state;
    struct answers answers;

    open_first(recorder, SCHEME_PARTNER);
    fill(&answers);
    memset(answers.sum, 0, sizeof(answers.sum));
    answers.roots[2][2 * 1].words[0] ^= 1;
    answer_all(recorder, &answers, NODES);
    assert_null(only_refusal(recorder));
    expect_stuck(recorder, ARBITER_WANT_ROOTS);
}

/* Once an epoch went on from the line, its record knows the roots, whatever all nodes tell. */
static void the_record_decides(void **state)
{
    struct recorder *recorder = *state;
    struct answers answers;

    open_first(recorder, SCHEME_PARTNER);
    fill(&answers);
    answer_all(recorder, &answers, NODES);
    begin(recorder, SCHEME_PARTNER, LEASE_US);
    for (uint32_t node = 0; node < NODES; node++) {
        if (answers.held[node][1].image_line)
            answers.roots[node][2 * 1].words[0] ^= 1;
        answers.sum[node] = (struct digest){{0}};
    }
    for (uint32_t node = 0; node < NODES; node++)
        step(recorder, answer_of(&answers, node, 3));
    assert_int_equal(arbiter_wants(recorder->arbiter), ARBITER_WANT_DATA);
    assert_int_equal(arbiter_record(recorder->arbiter)->epoch, 2);
}

/* Node 0 has fetched rank 1 from node 2, and has got something else: it is fetched from node 1. */
static void what_another_node_has_refuted_is_left_aside(void **state)
{
    struct recorder *recorder = *state;
    struct answers answers;
    const struct refuted refuted[] = {{2, 1, LINE}, {2, 1, LINE - 1}, {9, 1, LINE}, {2, 77, LINE}};

    open_first(recorder, SCHEME_PARTNER);
    fill(&answers);
    for (uint32_t node = 0; node < NODES; node++) {
        struct arbiter_event event = answer_of(&answers, node, 2);

        event.state.refuted = node == 0 ? refuted : NULL;
        event.state.refuted_count = node == 0 ? sizeof(refuted) / sizeof(*refuted) : 0;
        step(recorder, event);
    }
    expect_refused(recorder, 2, 1);
    assert_int_equal(recorder->durable->members[recorder->durable->holder[1]], 1);
}

/* A record that was put together of what members had been told: of rank 0 nobody has told the root. */
static void the_sum_decides_where_the_record_says_nothing(void **state)
{
    struct recorder *recorder = *state;
    struct answers answers;

    open_first(recorder, SCHEME_PARTNER);
    recorder->durable->line = LINE;
    for (uint32_t rank = 1; rank < RANKS; rank++)
        recorder->durable->roots[rank] = root_of(rank);
    begin(recorder, SCHEME_PARTNER, LEASE_US);
    fill(&answers);
    answers.roots[0][0].words[0]++; /* of rank 0, by its home */
    answer_all(recorder, &answers, NODES);
    assert_int_equal(arbiter_record(recorder->arbiter)->epoch, 2);
    expect_refused(recorder, 0, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_was_committed_is_recorded),
        TEST(another_image_is_left_aside),
        TEST(a_sum_that_fits_the_lie_does_not_help),
        TEST(the_only_copy_is_another_one),
        TEST(survivors_that_contradict_one_another),
        TEST(what_is_not_known_is_believed),
        TEST(two_images_without_a_sum),
        TEST(the_record_decides),
        TEST(the_sum_decides_where_the_record_says_nothing),
        TEST(what_another_node_has_refuted_is_left_aside),
    };
    return cmocka_run_group_tests_name("arbiter roots", tests, NULL, NULL);
}
