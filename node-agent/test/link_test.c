/* link_test.c - messages of a loopback come whole and in order, never from within a call; its loss is heard.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node-agent/link/loopback.h"

static uv_loop_t loop;

/* What one end has heard. */
struct ear {
    struct link *link;
    struct ear *other;
    char heard[512];
    bool is_lost;
    bool is_sending;       /* within link_send() */
    unsigned answers;      /* that it sends to what it hears */
    bool destroys_at_once; /* both ends, when it hears something */
};

static struct ear ears[2];

static void send_text(struct ear *ear, const char *text)
{
    ear->is_sending = true;
    link_send(ear->link, (uint8_t *)strdup(text), strlen(text) + 1);
    ear->is_sending = false;
}

static void drop(struct ear *ear)
{
    link_destroy(ear->link);
    ear->link = NULL;
}

static void on_received(void *context, const uint8_t *bytes, size_t count)
{
    struct ear *ear = context;
    assert_false(ear->is_sending || ear->other->is_sending);
    assert_false(ear->is_lost);
    assert_int_equal(bytes[count - 1], '\0');
    strncat(ear->heard, (const char *)bytes, sizeof ear->heard - strlen(ear->heard) - 1);
    if (ear->destroys_at_once) {
        drop(ear);
        drop(ear->other);
    } else if (ear->answers > 0) {
        ear->answers--;
        send_text(ear, "!");
    }
}

static void on_lost(void *context, const char *reason)
{
    struct ear *ear = context;
    assert_false(ear->is_sending || ear->other->is_sending);
    assert_false(ear->is_lost);
    assert_non_null(reason);
    ear->is_lost = true;
}

static const struct link_ops ops = {.received = on_received, .lost = on_lost};

static int setup(void **state)
{
    struct link *ends[2];
    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(loopback_create(&loop, ends), 0);
    for (int i = 0; i < 2; i++) {
        ears[i] = (struct ear){.link = ends[i], .other = &ears[1 - i]};
        link_open(ends[i], &ops, &ears[i]);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    drop(&ears[0]);
    drop(&ears[1]);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop); /* fails if something of the link is left in it */
}

static void messages_keep_their_order(void **state)
{
    (void)state;
    send_text(&ears[0], "a");
    send_text(&ears[0], "b");
    send_text(&ears[1], "x");
    send_text(&ears[0], "c");
    assert_string_equal(ears[1].heard, "");
    uv_run(&loop, UV_RUN_DEFAULT); /* returns: an idle link keeps no loop busy */
    assert_string_equal(ears[1].heard, "abc");
    assert_string_equal(ears[0].heard, "x");
}

static void many_messages_arrive(void **state)
{
    (void)state;
    for (int i = 0; i < 500; i++)
        send_text(&ears[0], "m");
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(strlen(ears[1].heard), 500);
}

static void answers_are_heard(void **state)
{
    (void)state;
    ears[0].answers = 2;
    ears[1].answers = 2;
    send_text(&ears[0], "?");
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_string_equal(ears[0].heard, "!!");
    assert_string_equal(ears[1].heard, "?!!");
}

static void who_listens_late_hears_all(void **state)
{
    struct link *ends[2];
    (void)state;
    drop(&ears[0]);
    drop(&ears[1]);
    assert_int_equal(loopback_create(&loop, ends), 0);
    ears[0].link = ends[0];
    ears[1].link = ends[1];
    send_text(&ears[0], "early");
    uv_run(&loop, UV_RUN_DEFAULT);
    link_open(ends[1], &ops, &ears[1]);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_string_equal(ears[1].heard, "early");
}

static void a_loss_is_heard_after_what_was_sent(void **state)
{
    (void)state;
    send_text(&ears[0], "last");
    drop(&ears[0]);
    assert_false(ears[1].is_lost);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_string_equal(ears[1].heard, "last");
    assert_true(ears[1].is_lost);
    send_text(&ears[1], "nobody hears this");
    uv_run(&loop, UV_RUN_DEFAULT);
}

/* The other end would miss it: order is all or nothing. */
static void a_message_that_cannot_be_sent_loses_the_link(void **state)
{
    (void)state;
    send_text(&ears[0], "before");
    link_send(ears[0].link, NULL, 0);
    send_text(&ears[0], "after");
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_string_equal(ears[1].heard, "before");
    assert_true(ears[0].is_lost && ears[1].is_lost);
}

static void ends_may_go_in_a_callback(void **state)
{
    (void)state;
    ears[1].destroys_at_once = true;
    send_text(&ears[0], "a");
    send_text(&ears[0], "b");
    send_text(&ears[1], "x");
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_string_equal(ears[1].heard, "a");
}

static void a_flush_hands_on_answers_too(void **state)
{
    (void)state;
    ears[1].answers = 1;
    send_text(&ears[0], "?");
    loopback_flush(ears[0].link);
    assert_string_equal(ears[1].heard, "?");
    assert_string_equal(ears[0].heard, "!");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(messages_keep_their_order, setup, teardown),
        cmocka_unit_test_setup_teardown(many_messages_arrive, setup, teardown),
        cmocka_unit_test_setup_teardown(answers_are_heard, setup, teardown),
        cmocka_unit_test_setup_teardown(who_listens_late_hears_all, setup, teardown),
        cmocka_unit_test_setup_teardown(a_loss_is_heard_after_what_was_sent, setup, teardown),
        cmocka_unit_test_setup_teardown(a_message_that_cannot_be_sent_loses_the_link, setup, teardown),
        cmocka_unit_test_setup_teardown(ends_may_go_in_a_callback, setup, teardown),
        cmocka_unit_test_setup_teardown(a_flush_hands_on_answers_too, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
