/* spread_test.c - where ranks run: at home, at their heir, where an image is; and no more ranks than needed.
 */
#include "coord/spread.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NODES_BEFORE 100u /* those that were no member of the last epoch have this number or more */
#define RANKS_MAX 16u
#define MEMBERS_MAX 6u
#define LINE 4u

/* An epoch, and the one before it. */
struct stage {
    struct epoch_start *last, *start;
    struct spread_member members[MEMBERS_MAX];
    struct holding held[MEMBERS_MAX][RANKS_MAX];
    struct spread_facts facts;
};

static int setup(void **state)
{
    *state = calloc(1, sizeof(struct stage));
    return *state ? 0 : -1;
}

static int teardown(void **state)
{
    struct stage *stage = *state;

    free(stage->last);
    free(stage->start);
    free(stage);
    return 0;
}

/* The last epoch: `homes` gives the member of each rank. Nodes are numbered as its members. */
static void had(struct stage *stage, uint32_t members, uint32_t ranks, const uint32_t *homes)
{
    stage->last = epoch_start_create(members, ranks);
    assert_non_null(stage->last);
    for (uint32_t i = 0; i < members; i++)
        stage->last->members[i] = i;
    for (uint32_t rank = 0; rank < ranks; rank++)
        stage->last->placement[rank] = homes[rank];
}

/* The next one: former[i] is the member of the last epoch that member i was, or stands for. Each holds the
 * images of its ranks, and of those of the member before it in the last epoch, unless it is new. */
static void has(struct stage *stage, uint32_t members, const uint32_t *former, const bool *is_new)
{
    stage->start = epoch_start_create(members, stage->last->rank_count);
    assert_non_null(stage->start);
    stage->start->line = LINE;
    stage->facts = (struct spread_facts){
        .last = stage->last, .members = stage->members, .scheme = SCHEME_PARTNER, .first = 0};
    for (uint32_t i = 0; i < members; i++) {
        uint32_t before = (former[i] + stage->last->member_count - 1) % stage->last->member_count;

        stage->start->members[i] = is_new && is_new[i] ? NODES_BEFORE + i : former[i];
        stage->members[i] = (struct spread_member){.room = EPOCH_NO_LIMIT,
                                                   .held_count = stage->last->rank_count,
                                                   .held = stage->held[i],
                                                   .former = former[i]};
        for (uint32_t rank = 0; rank < stage->last->rank_count; rank++)
            if (!(is_new && is_new[i]) &&
                (stage->last->placement[rank] == former[i] || stage->last->placement[rank] == before))
                stage->held[i][rank].image_line = LINE;
    }
}

static void assert_places(const struct stage *stage, const uint32_t *placement, const uint32_t *holder)
{
    for (uint32_t rank = 0; rank < stage->start->rank_count; rank++) {
        assert_int_equal(stage->start->placement[rank], placement[rank]);
        assert_int_equal(stage->start->holder[rank], holder[rank]);
    }
}

static void every_rank_stays_at_home(void **state)
{
    struct stage *stage = *state;
    const uint32_t homes[] = {0, 0, 0, 1, 2};

    had(stage, 3, 5, homes);
    has(stage, 3, (const uint32_t[]){0, 1, 2}, NULL);
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
    assert_places(stage, homes, homes);
}

/* One rank more than the others is what a member has to have. */
static void one_rank_goes_to_its_copy(void **state)
{
    struct stage *stage = *state;

    had(stage, 4, 4, (const uint32_t[]){0, 1, 2, 3});
    has(stage, 3, (const uint32_t[]){0, 2, 3}, NULL);
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
    assert_places(stage, (const uint32_t[]){0, 1, 1, 2}, (const uint32_t[]){0, 1, 1, 2});
}

/* The launcher has put them there: nothing is chosen but who has the images. */
static void ranks_are_where_the_launcher_has_put_them(void **state)
{
    struct stage *stage = *state;
    const uint32_t places[] = {0, 2, NODES_BEFORE + 3, NODES_BEFORE + 3};

    had(stage, 4, 4, (const uint32_t[]){0, 1, 2, 3});
    has(stage, 4, (const uint32_t[]){0, 1, 2, 3}, (const bool[]){false, false, false, true});
    stage->held[0][3].image_line = LINE; /* the copy of the lost node's rank */
    stage->facts.placed = places;
    stage->facts.placed_count = 4;
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
    assert_places(stage, (const uint32_t[]){0, 2, 3, 3}, (const uint32_t[]){0, 2, 2, 0});
    stage->facts.placed_count = 3;
    assert_int_equal(spread_ranks(stage->start, &stage->facts), -1);
    assert_int_equal(errno, EXDEV);
}

/* The member whose partner has the image is the next best: its next line is a delta to that copy. */
static void ranks_of_one_node_do_not_overload_another(void **state)
{
    struct stage *stage = *state;

    had(stage, 4, 8, (const uint32_t[]){0, 0, 1, 1, 2, 2, 3, 3});
    has(stage, 3, (const uint32_t[]){0, 2, 3}, NULL);
    stage->facts.first = 2;
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
    assert_places(stage, (const uint32_t[]){0, 0, 1, 0, 1, 1, 2, 2},
                  (const uint32_t[]){0, 0, 1, 1, 1, 1, 2, 2});
}

static void many_ranks_are_spread_over_all(void **state)
{
    struct stage *stage = *state;
    uint32_t load[MEMBERS_MAX] = {0};

    had(stage, 4, 16, (const uint32_t[]){0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3});
    has(stage, 3, (const uint32_t[]){1, 2, 3}, NULL);
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
    for (uint32_t rank = 0; rank < 16; rank++) {
        load[stage->start->placement[rank]]++;
        if (rank < 4)
            assert_int_equal(stage->start->holder[rank], 0);
        else
            assert_int_equal(stage->start->placement[rank], rank / 4 - 1);
    }
    assert_true(load[0] <= 6 && load[1] <= 6 && load[2] <= 6);
}

/* Also where the holders have few ranks: the others are as they were. */
static void a_newcomer_takes_the_ranks_of_the_lost_node(void **state)
{
    struct stage *stage = *state;

    had(stage, 3, 4, (const uint32_t[]){0, 0, 1, 2});
    has(stage, 3, (const uint32_t[]){0, 1, 2}, (const bool[]){true, false, false});
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
    assert_places(stage, (const uint32_t[]){0, 0, 1, 2}, (const uint32_t[]){1, 1, 1, 2});
}

/* One that comes in addition: no member keeps more than its part, whatever it ran. */
static void a_member_more_takes_its_part(void **state)
{
    struct stage *stage = *state;

    had(stage, 2, 5, (const uint32_t[]){0, 0, 0, 0, 1});
    has(stage, 3, (const uint32_t[]){0, 1, EPOCH_NOBODY}, (const bool[]){false, false, true});
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
    assert_places(stage, (const uint32_t[]){0, 0, 1, 2, 1}, (const uint32_t[]){0, 0, 1, 0, 1});
}

/* Each rank takes 10 for its image, as much for its process, and 1 for a line. */
static void tell_memory(struct stage *stage, struct rank_size *sizes, const uint64_t *limits,
                        const uint64_t *machines, bool is_one_machine)
{
    for (uint32_t rank = 0; rank < stage->start->rank_count; rank++)
        sizes[rank] = (struct rank_size){.image_bytes = 10, .line_bytes = 1};
    for (uint32_t i = 0; i < stage->start->member_count; i++)
        stage->members[i].memory = (struct epoch_memory){.is_known = true,
                                                         .limit_bytes = limits ? limits[i] : UINT64_MAX,
                                                         .machine_bytes = machines ? machines[i] : UINT64_MAX,
                                                         .machine = is_one_machine ? 1 : i + 1,
                                                         .sizes = sizes};
}

/* Node 1 of three with two ranks each is lost. */
static void lose_one_of_three(struct stage *stage)
{
    had(stage, 3, 6, (const uint32_t[]){0, 0, 1, 1, 2, 2});
    has(stage, 2, (const uint32_t[]){0, 2}, NULL);
}

/* Without a limit one rank goes to each; member 0 has no room for one more image. */
static void a_rank_goes_where_there_is_memory(void **state)
{
    struct stage *stage = *state;
    struct rank_size sizes[RANKS_MAX];
    const uint64_t limits[] = {9, 9};

    lose_one_of_three(stage);
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
    assert_places(stage, (const uint32_t[]){0, 0, 1, 0, 1, 1}, (const uint32_t[]){0, 0, 1, 1, 1, 1});
    tell_memory(stage, sizes, limits, NULL, false);
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
    assert_places(stage, (const uint32_t[]){0, 0, 1, 1, 1, 1}, (const uint32_t[]){0, 0, 1, 1, 1, 1});
}

/* Room for copies and lines is looked for, too; it is done without if there is none. */
static void a_copy_needs_memory(void **state)
{
    struct stage *stage = *state;
    struct rank_size sizes[RANKS_MAX];
    uint64_t limits[] = {UINT64_MAX, UINT64_MAX, 22, 2, UINT64_MAX};

    had(stage, 6, 6, (const uint32_t[]){0, 1, 2, 3, 4, 5});
    has(stage, 5, (const uint32_t[]){0, 2, 3, 4, 5}, NULL);
    stage->members[1].room = 1; /* it keeps its own */
    tell_memory(stage, sizes, limits, NULL, false);
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
    assert_int_equal(stage->start->placement[1], 0); /* its partner has the image */
    stage->members[0].room = 1;
    stage->members[4].room = 1;
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
    assert_int_equal(stage->start->placement[1], 2); /* copies of one at the next do not fit */
    limits[2] = 10;
    tell_memory(stage, sizes, limits, NULL, false);
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
    assert_int_equal(stage->start->placement[1], 2); /* without lines */
}

/* Node 1 of four is lost. Its image is made again: 10; a line stages 1 of each; of both a half is parity over
 * three members. */
static void parity_needs_memory(void **state)
{
    struct stage *stage = *state;
    struct rank_size sizes[RANKS_MAX];
    uint64_t limits[] = {21, 21, 21};
    uint32_t chosen;

    had(stage, 4, 4, (const uint32_t[]){0, 1, 2, 3});
    has(stage, 3, (const uint32_t[]){0, 2, 3}, NULL);
    for (uint32_t i = 0; i < 3; i++)
        stage->held[i][1].image_line = 0;
    tell_memory(stage, sizes, limits, NULL, false);
    stage->facts.scheme = SCHEME_SINGLE;
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
    chosen = stage->start->placement[1];
    limits[(chosen + 1) % 3] = 22;
    tell_memory(stage, sizes, limits, NULL, false);
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
    assert_int_equal(stage->start->placement[1], chosen);
    stage->facts.scheme = SCHEME_PARITY;
    stage->facts.code = (struct parity_code){3, 1};
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
    assert_int_equal(stage->start->placement[1], (chosen + 1) % 3);
}

/* A rank that has the image needs memory for its process; members of one machine have it in common. */
static void a_process_needs_memory_of_the_machine(void **state)
{
    struct stage *stage = *state;
    struct rank_size sizes[RANKS_MAX];
    struct spread_lack lack;
    uint64_t machines[] = {100, 100};

    lose_one_of_three(stage);
    stage->facts.lack = &lack;
    tell_memory(stage, sizes, NULL, machines, false);
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
    assert_int_equal(lack.rank, EPOCH_NOBODY);
    machines[0] = 20; /* for those that are there */
    machines[1] = 30;
    tell_memory(stage, sizes, NULL, machines, false);
    assert_int_equal(spread_ranks(stage->start, &stage->facts), -1);
    assert_int_equal(errno, ENOSPC);
    assert_true(lack.rank == 2 || lack.rank == 3);
    assert_int_equal(lack.image_bytes, 10);
    machines[1] = 40;
    tell_memory(stage, sizes, NULL, machines, false);
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
    assert_places(stage, (const uint32_t[]){0, 0, 1, 1, 1, 1}, (const uint32_t[]){0, 0, 1, 1, 1, 1});
    machines[0] = machines[1] = 59; /* of six processes */
    tell_memory(stage, sizes, NULL, machines, true);
    assert_int_equal(spread_ranks(stage->start, &stage->facts), -1);
    machines[0] = machines[1] = 60;
    tell_memory(stage, sizes, NULL, machines, true);
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
}

/* The last run of the loop with other bounds finds a place for the large rank first. */
static void large_ranks_find_their_place(void **state)
{
    struct stage *stage = *state;
    struct rank_size sizes[RANKS_MAX];
    uint64_t machines[] = {20 + 10, 20 + 30};

    lose_one_of_three(stage);
    tell_memory(stage, sizes, NULL, machines, false);
    sizes[3].image_bytes = 30;
    stage->held[0][2].image_line = stage->held[0][3].image_line = LINE;
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
    assert_places(stage, (const uint32_t[]){0, 0, 0, 1, 1, 1}, (const uint32_t[]){0, 0, 0, 1, 1, 1});
}

/* Who stands for a lost node, and holds copies, has not had the memory of its ranks. */
static void an_heir_has_to_have_memory(void **state)
{
    struct stage *stage = *state;
    struct rank_size sizes[RANKS_MAX];
    const uint64_t none_on_the_heir[] = {100, 0};

    had(stage, 2, 2, (const uint32_t[]){0, 1});
    has(stage, 2, (const uint32_t[]){0, 1}, NULL);
    stage->start->members[1] = NODES_BEFORE;
    tell_memory(stage, sizes, none_on_the_heir, none_on_the_heir, false);
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
    assert_places(stage, (const uint32_t[]){0, 0}, (const uint32_t[]){0, 0});
}

/* Ranks that stay need what they have had. */
static void nobody_leaves_for_want_of_memory(void **state)
{
    struct stage *stage = *state;
    struct rank_size sizes[RANKS_MAX];
    const uint64_t none[] = {0, 0, 0};

    had(stage, 3, 3, (const uint32_t[]){0, 1, 2});
    has(stage, 3, (const uint32_t[]){0, 1, 2}, NULL);
    tell_memory(stage, sizes, none, none, false);
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
    assert_places(stage, (const uint32_t[]){0, 1, 2}, (const uint32_t[]){0, 1, 2});
}

/* A member more gets less than its part rather than a rank that is bound to another one. */
static void bound_ranks_stay_together(void **state)
{
    struct stage *stage = *state;
    struct rank_size sizes[RANKS_MAX];

    had(stage, 2, 5, (const uint32_t[]){0, 0, 0, 0, 1});
    has(stage, 3, (const uint32_t[]){0, 1, EPOCH_NOBODY}, (const bool[]){false, false, true});
    tell_memory(stage, sizes, NULL, NULL, false);
    stage->members[1].memory.sizes = stage->members[2].memory.sizes = NULL; /* the partner does not say so */
    sizes[1].is_bound = sizes[3].is_bound = 1;
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
    assert_int_equal(stage->start->placement[1], 0);
    assert_int_equal(stage->start->placement[3], 0);
    assert_true(stage->start->placement[0] != 0 && stage->start->placement[2] != 0);
    sizes[0].is_bound = sizes[2].is_bound = 1;
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
    assert_places(stage, (const uint32_t[]){0, 0, 0, 0, 1}, (const uint32_t[]){0, 0, 0, 0, 1});
}

/* Node 2 is lost: its bound ranks come to the member that has their images, if there is memory for both. */
static void bound_ranks_move_together(void **state)
{
    struct stage *stage = *state;
    struct rank_size sizes[RANKS_MAX];
    const uint64_t little[] = {15, 1000}, none[] = {5, 5};

    had(stage, 3, 5, (const uint32_t[]){0, 0, 1, 2, 2});
    has(stage, 2, (const uint32_t[]){0, 1}, NULL);
    tell_memory(stage, sizes, NULL, NULL, false);
    for (uint32_t rank = 0; rank < 5; rank++)
        sizes[rank].is_bound = rank >= 3;
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
    assert_places(stage, (const uint32_t[]){0, 0, 1, 0, 0}, (const uint32_t[]){0, 0, 1, 0, 0});
    tell_memory(stage, sizes, NULL, little, false); /* for one of them, not for both */
    for (uint32_t rank = 0; rank < 5; rank++)
        sizes[rank].is_bound = rank >= 3;
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
    assert_places(stage, (const uint32_t[]){0, 0, 1, 1, 1}, (const uint32_t[]){0, 0, 1, 0, 0});
    tell_memory(stage, sizes, NULL, none, false);
    for (uint32_t rank = 0; rank < 5; rank++)
        sizes[rank].is_bound = rank >= 3;
    assert_int_equal(spread_ranks(stage->start, &stage->facts), -1);
    assert_int_equal(errno, ENOSPC);
}

static void room_counts(void **state)
{
    struct stage *stage = *state;

    had(stage, 3, 3, (const uint32_t[]){0, 1, 2});
    has(stage, 3, (const uint32_t[]){0, 1, 2}, NULL);
    stage->members[0].room = 0;
    stage->members[1].room = 1;
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
    assert_places(stage, (const uint32_t[]){2, 1, 2}, (const uint32_t[]){0, 1, 2});
    stage->members[2].room = 1;
    assert_int_equal(spread_ranks(stage->start, &stage->facts), -1);
    assert_int_equal(errno, ENOSPC);
}

/* Node 3 is lost. Members 0 and 2 have processors of its kind, and member 1, which has its images, has not.
 */
static void a_rank_goes_where_the_processors_are_alike(void **state)
{
    struct stage *stage = *state;
    const uint64_t kinds[] = {7, 8, 7, 7};

    had(stage, 4, 8, (const uint32_t[]){0, 0, 1, 1, 2, 2, 3, 3});
    memcpy(stage->last->processors, kinds, sizeof(kinds));
    has(stage, 3, (const uint32_t[]){0, 1, 2}, NULL);
    for (uint32_t i = 0; i < 3; i++)
        stage->members[i].processor = kinds[i];
    for (uint32_t rank = 6; rank < 8; rank++) {
        stage->held[0][rank].image_line = 0;
        stage->held[1][rank].image_line = LINE;
    }
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
    assert_places(stage, (const uint32_t[]){0, 0, 1, 1, 2, 2, 0, 2},
                  (const uint32_t[]){0, 0, 1, 1, 2, 2, 1, 1});
    stage->members[0].processor = stage->members[2].processor = 9;
    assert_int_equal(spread_ranks(stage->start, &stage->facts), -1);
    assert_int_equal(errno, EXDEV);
    stage->start->line = 0; /* begun anew, it runs anywhere */
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
}

/* Nobody has an image of a program that begins anew. */
static void a_new_program_is_spread_evenly(void **state)
{
    struct stage *stage = *state;
    uint32_t load[MEMBERS_MAX] = {0};

    had(stage, 2, 6, (const uint32_t[]){0, 0, 0, 0, 0, 1});
    has(stage, 2, (const uint32_t[]){0, 1}, NULL);
    stage->start->line = 0;
    assert_int_equal(spread_ranks(stage->start, &stage->facts), 0);
    for (uint32_t rank = 0; rank < 6; rank++) {
        load[stage->start->placement[rank]]++;
        assert_int_equal(stage->start->holder[rank], stage->start->placement[rank]);
    }
    assert_int_equal(load[0], 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_rank_stays_at_home, setup, teardown),
        cmocka_unit_test_setup_teardown(one_rank_goes_to_its_copy, setup, teardown),
        cmocka_unit_test_setup_teardown(ranks_of_one_node_do_not_overload_another, setup, teardown),
        cmocka_unit_test_setup_teardown(many_ranks_are_spread_over_all, setup, teardown),
        cmocka_unit_test_setup_teardown(a_newcomer_takes_the_ranks_of_the_lost_node, setup, teardown),
        cmocka_unit_test_setup_teardown(a_member_more_takes_its_part, setup, teardown),
        cmocka_unit_test_setup_teardown(room_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(bound_ranks_stay_together, setup, teardown),
        cmocka_unit_test_setup_teardown(bound_ranks_move_together, setup, teardown),
        cmocka_unit_test_setup_teardown(a_rank_goes_where_there_is_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(a_copy_needs_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(parity_needs_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(a_process_needs_memory_of_the_machine, setup, teardown),
        cmocka_unit_test_setup_teardown(large_ranks_find_their_place, setup, teardown),
        cmocka_unit_test_setup_teardown(an_heir_has_to_have_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_leaves_for_want_of_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(a_rank_goes_where_the_processors_are_alike, setup, teardown),
        cmocka_unit_test_setup_teardown(ranks_are_where_the_launcher_has_put_them, setup, teardown),
        cmocka_unit_test_setup_teardown(a_new_program_is_spread_evenly, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
