/* tree_test.c - trees of all sizes: each member has one place, is found there, and is not deep. */
#include "coord/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "coord/epoch.h"

/* Look at a subtree, and all in it. Returns its depth. */
static uint32_t look_at(const struct tree *tree, struct tree_part part, uint32_t parent, bool *seen)
{
    uint32_t head = tree_member(tree, part.first), above, deepest = 0,
             children = tree_child_count(tree, part);
    struct tree_part found = tree_find(tree, head, &above);

    assert_true(part.first < part.end);
    assert_false(seen[head]);
    seen[head] = true;
    assert_int_equal(found.first, part.first);
    assert_int_equal(found.end, part.end);
    assert_int_equal(above, parent);
    assert_true(children <= tree->arity);
    assert_int_equal(tree_child_of(tree, part, head), TREE_HEAD);
    for (uint32_t i = 0; i < children; i++) {
        struct tree_part child = tree_child(tree, part, i);
        uint32_t depth = look_at(tree, child, head, seen);

        assert_true(tree_is_edge(tree, head, tree_member(tree, child.first)));
        assert_true(tree_is_edge(tree, tree_member(tree, child.first), head));
        for (uint32_t at = child.first; at < child.end; at++)
            assert_int_equal(tree_child_of(tree, part, tree_member(tree, at)), i);
        deepest = depth > deepest ? depth : deepest;
    }
    for (uint32_t at = 0; at < tree->count; at++)
        if (at < part.first || at >= part.end)
            assert_int_equal(tree_child_of(tree, part, tree_member(tree, at)), TREE_OUTSIDE);
    return deepest + 1;
}

static uint32_t look_at_all(const struct tree *tree)
{
    bool *seen = calloc(tree->count, sizeof(*seen));
    uint32_t depth;

    assert_non_null(seen);
    depth = look_at(tree, (struct tree_part){.first = 0, .end = tree->count}, EPOCH_NOBODY, seen);
    for (uint32_t i = 0; i < tree->count; i++)
        assert_true(seen[i]);
    free(seen);
    return depth;
}

static void each_member_has_one_place(void **state)
{
    (void)state;
    for (uint32_t arity = 1; arity <= 4; arity++)
        for (uint32_t count = 1; count <= 40; count++)
            for (uint32_t root = 0; root < count; root += 7)
                look_at_all(&(struct tree){.count = count, .root = root, .arity = arity});
}

static void few_members_are_a_star(void **state)
{
    const struct tree star = {.count = 17, .root = 3, .arity = 16}, deep = {.count = 18, .arity = 16};

    (void)state;
    assert_true(tree_is_star(&star));
    assert_int_equal(look_at_all(&star), 2);
    assert_false(tree_is_star(&deep));
    assert_int_equal(look_at_all(&deep), 3);
    assert_true(tree_is_star(&(struct tree){.count = 1, .arity = 2}));
}

static void depth_grows_with_the_logarithm(void **state)
{
    (void)state;
    assert_int_equal(look_at_all(&(struct tree){.count = 1 + 16 + 256, .arity = 16}), 3);
    assert_true(look_at_all(&(struct tree){.count = 1000, .arity = 16}) <= 4);
    assert_true(look_at_all(&(struct tree){.count = 1000, .arity = 2}) <= 10);
}

static void neighbours_are_near(void **state)
{
    const struct tree tree = {.count = 1 + 16 * 17, .root = 100, .arity = 16};
    struct tree_part part = tree_child(&tree, (struct tree_part){.first = 0, .end = tree.count}, 2);

    (void)state;
    assert_int_equal(part.end - part.first, 17);
    assert_int_equal(tree_member(&tree, part.first), 100 + 1 + 2 * 17);
    assert_int_equal(tree_member(&tree, part.end - 1), 100 + 3 * 17);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_member_has_one_place),
        cmocka_unit_test(few_members_are_a_star),
        cmocka_unit_test(depth_grows_with_the_logarithm),
        cmocka_unit_test(neighbours_are_near),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
