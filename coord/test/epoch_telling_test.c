/* epoch_telling_test.c - what each member is told of a decision: enough for it, and no more in larger jobs.
 */
#include "coord/epoch_telling.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coord/epoch_links.h"
#include "coord/epoch_message.h"

#define ARITY 3u

static uint32_t state_of_chance;

static uint32_t chance(uint32_t count)
{
    state_of_chance = state_of_chance * 1664525u + 1013904223u;
    return (state_of_chance >> 8) % count;
}

static struct digest root_of(uint32_t rank)
{
    return (struct digest){{rank + 1, 2, 3, 4}};
}

/* Ranks in blocks; now and then one is elsewhere, and is fetched from a third member. */
static struct epoch_start *make_start(uint32_t members, uint32_t per_member, uint32_t strays)
{
    struct epoch_start *start = epoch_start_create(members, members * per_member);

    assert_non_null(start);
    start->epoch = 3;
    start->line = 8;
    start->last_line = 9;
    start->coordinator = chance(members);
    for (uint32_t i = 0; i < members; i++) {
        start->members[i] = i + (i > members / 2); /* one node was lost */
        start->incarnations[i] = 1000 + i;
        start->processors[i] = 1 + (i == members / 3);
    }
    for (uint32_t rank = 0; rank < start->rank_count; rank++) {
        start->placement[rank] = start->holder[rank] = rank / per_member;
        start->roots[rank] = root_of(rank);
    }
    for (uint32_t i = 0; i < strays && start->rank_count > 0; i++) {
        uint32_t rank = chance(start->rank_count);

        start->placement[rank] = chance(members);
        start->holder[rank] = chance(members);
    }
    return start;
}

/* As it comes there; *bytes: how long it is. */
static struct epoch_start *tell(struct epoch_telling *telling, uint32_t index, size_t *bytes)
{
    Belay__Wire__EpochRecord *record = epoch_telling_to(telling, index), *came;
    uint8_t *packed;
    struct epoch_start *start;

    assert_non_null(record);
    packed = malloc(belay__wire__epoch_record__get_packed_size(record));
    assert_non_null(packed);
    *bytes = belay__wire__epoch_record__pack(record, packed);
    came = belay__wire__epoch_record__unpack(NULL, *bytes, packed);
    assert_non_null(came);
    start = epoch_message_to_start(came);
    assert_non_null(start);
    belay__wire__epoch_record__free_unpacked(came, NULL);
    free(packed);
    return start;
}

static void expect_frame(const struct epoch_start *came, const struct epoch_start *start)
{
    assert_int_equal(came->epoch, start->epoch);
    assert_int_equal(came->line, start->line);
    assert_int_equal(came->last_line, start->last_line);
    assert_int_equal(came->coordinator, start->coordinator);
    assert_int_equal(came->member_count, start->member_count);
    assert_int_equal(came->rank_count, start->rank_count);
    assert_memory_equal(came->members, start->members, start->member_count * sizeof(*start->members));
    assert_memory_equal(came->processors, start->processors,
                        start->member_count * sizeof(*start->processors));
    if (start->rank_count == 0)
        return;
    assert_memory_equal(came->placement, start->placement, start->rank_count * sizeof(*start->placement));
    assert_memory_equal(came->holder, start->holder, start->rank_count * sizeof(*start->holder));
}

/* The incarnations of those with which it has links, and the roots of the images that it has to do with. */
static void expect_needed(const struct epoch_start *came, const struct epoch_start *start, uint32_t own)
{
    const struct tree tree = {.count = start->member_count, .root = start->coordinator, .arity = ARITY};
    uint32_t guest = scheme_guest(SCHEME_PARTNER, own, start->member_count);

    for (uint32_t i = 0; i < start->member_count; i++) {
        bool is_needed =
            i == own || epoch_links_has(start, SCHEME_PARTNER, (struct parity_code){0}, &tree, own, i);

        assert_int_equal(came->incarnations[i], is_needed ? start->incarnations[i] : 0);
    }
    for (uint32_t rank = 0; rank < start->rank_count; rank++) {
        bool is_needed =
            start->placement[rank] == own || start->holder[rank] == own || start->placement[rank] == guest;

        assert_int_equal(digest_is_known(&came->roots[rank]), is_needed);
        if (is_needed)
            assert_true(digest_is_equal(&came->roots[rank], &start->roots[rank]));
    }
}

static void check_all(uint32_t members, uint32_t per_member, uint32_t strays)
{
    struct epoch_start *start = make_start(members, per_member, strays), *joined = NULL;
    struct epoch_telling *telling =
        epoch_telling_create(start, SCHEME_PARTNER, (struct parity_code){0}, ARITY, "job");
    size_t bytes;

    assert_non_null(telling);
    for (uint32_t i = 0; i < members; i++) {
        struct epoch_start *came = tell(telling, i, &bytes);

        expect_frame(came, start);
        expect_needed(came, start, i);
        if (joined)
            assert_true(epoch_start_join(joined, came));
        else
            joined = epoch_start_copy(came);
        free(came);
    }
    /* together they know all */
    assert_memory_equal(joined->incarnations, start->incarnations, members * sizeof(*start->incarnations));
    if (start->rank_count > 0)
        assert_memory_equal(joined->roots, start->roots, start->rank_count * sizeof(*start->roots));
    free(joined);
    epoch_telling_destroy(telling);
    free(start);
}

static void each_member_is_told_what_it_needs(void **state)
{
    (void)state;
    state_of_chance = 7;
    for (uint32_t members = 2; members < 40; members++)
        for (uint32_t strays = 0; strays < 6; strays += 1 + strays)
            check_all(members, 1 + chance(5), strays);
    check_all(5, 0, 0); /* nobody knows yet where ranks will be */
}

static void a_member_alone_is_told_all(void **state)
{
    (void)state;
    struct epoch_start *start = make_start(1, 4, 0);
    struct epoch_telling *telling =
        epoch_telling_create(start, SCHEME_SINGLE, (struct parity_code){0}, ARITY, "job");
    size_t bytes;
    struct epoch_start *came = tell(telling, 0, &bytes);

    expect_frame(came, start);
    assert_memory_equal(came->roots, start->roots, 4 * sizeof(*start->roots));
    free(came);
    epoch_telling_destroy(telling);
    free(start);
}

static size_t most_bytes(uint32_t members)
{
    struct epoch_start *start = make_start(members, 8, 8);
    struct epoch_telling *telling =
        epoch_telling_create(start, SCHEME_PARTNER, (struct parity_code){0}, TREE_ARITY, "job");
    size_t most = 0;

    for (uint32_t i = 0; i < members; i++) {
        size_t bytes = belay__wire__epoch_record__get_packed_size(epoch_telling_to(telling, i));

        most = bytes > most ? bytes : most;
    }
    epoch_telling_destroy(telling);
    free(start);
    return most;
}

static void more_members_are_not_more_to_tell(void **state)
{
    (void)state;
    state_of_chance = 3;
    assert_true(most_bytes(8000) < most_bytes(80) * 5 / 4);
}

static void contradictions_make_a_root_unknown(void **state)
{
    (void)state;
    struct epoch_start *start = make_start(3, 2, 0), *other = epoch_start_copy(start);

    other->roots[1] = (struct digest){{9, 9, 9, 9}};
    start->incarnations[2] = 0;
    assert_true(epoch_start_join(start, other));
    assert_false(digest_is_known(&start->roots[1]));
    assert_true(digest_is_equal(&start->roots[2], &other->roots[2]));
    assert_int_equal(start->incarnations[2], 1002);
    other->line++; /* another decision */
    assert_false(epoch_start_join(start, other));
    assert_false(digest_is_known(&start->roots[1]));
    free(start);
    free(other);
}

/* One number of a sound message is another one, or one is missing. */
static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct epoch_start *start = make_start(4, 2, 0);
    struct epoch_telling *telling =
        epoch_telling_create(start, SCHEME_PARTNER, (struct parity_code){0}, ARITY, "job");
    const Belay__Wire__EpochRecord sound = *epoch_telling_to(telling, 1);
    uint32_t far[] = {0, 1, 4, 3, 2, 2}, wrap[] = {UINT32_MAX, 4}, large[] = {0, 3, UINT32_MAX};
    uint32_t behind[] = {1, 0, 2, 3}, twice[] = {0, 2, 1, 2}, none[] = {0, 4, 2, 0, 0, 2};
    struct epoch_start *came = epoch_message_to_start(&sound);

    assert_non_null(came);
    free(came);
    for (int fault = 0; fault < 14; fault++) {
        Belay__Wire__EpochRecord record = sound;

        record.epoch = fault == 0 ? 0 : record.epoch;
        record.coordinator = fault == 1 ? 4 : record.coordinator;
        record.n_member_runs -= fault == 2;
        if (fault == 3 || fault == 4)
            record.placement_runs = fault == 3 ? far : large;
        record.n_placement_runs = fault == 3 ? 6 : fault == 4 ? 3 : record.n_placement_runs;
        record.n_holder_runs -= fault == 5 ? 3 : 0;
        if (fault == 6)
            record.member_runs = wrap;
        record.n_member_runs = fault == 6 ? 2 : record.n_member_runs;
        record.n_processor_runs -= fault == 7;
        if (fault == 8)
            record.known_members = behind;
        record.n_known_members -= fault == 9;
        record.roots.len -= fault == 10 ? DIGEST_BYTES : 0;
        if (fault == 11)
            record.known_ranks = twice;
        record.n_known_ranks = fault == 11 ? 4 : record.n_known_ranks;
        if (fault == 12)
            record.placement_runs = none;
        record.n_placement_runs = fault == 12 ? 6 : record.n_placement_runs;
        record.n_placement = fault == 13; /* both ways at once */
        if (epoch_message_to_start(&record))
            fail_msg("fault %d is not noticed", fault);
    }
    epoch_telling_destroy(telling);
    free(start);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_member_is_told_what_it_needs),
        cmocka_unit_test(a_member_alone_is_told_all),
        cmocka_unit_test(more_members_are_not_more_to_tell),
        cmocka_unit_test(contradictions_make_a_root_unknown),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
