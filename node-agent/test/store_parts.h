/*
 * store_parts.h - a keeper of the test's own, and images and deltas of two ranks, for the tests of the store.
 *
 * An image has pages 0 to 3, each filled with the number of its line; a delta changes page 1 and drops
 * page 2. Whatever fails fails the test.
 */
#ifndef BELAY_TEST_STORE_PARTS_H
#define BELAY_TEST_STORE_PARTS_H

#include <stdint.h>

#include "node-agent/store/store.h"

#define BYTES 8192u
#define PAGE IMAGE_PAGE_BYTES

/* Of the test that runs. */
extern struct keeper *parts_keeper;

/* Around each test. */
int parts_setup(void **state);
int parts_teardown(void **state);
#define EACH(test) cmocka_unit_test_setup_teardown(test, parts_setup, parts_teardown)

/* Descriptors of the caller's. Of the ranks 0 and 1, which are of group 0; 2: what this group shares. */
int parts_image(uint64_t line, uint32_t rank);
int parts_delta(uint64_t line, uint64_t base_line, uint32_t rank);

void parts_stage(struct store *store, uint64_t line, uint32_t rank);
void parts_stage_delta(struct store *store, uint64_t line, uint64_t base_line, uint32_t rank);
/* A line of whole images of both ranks. */
void parts_commit(struct store *store, uint64_t line);
struct store_pin parts_pin(struct store *store, uint32_t rank, enum pin_reason reason);

/* The first byte of a page, and the line of an image. */
char parts_byte(int fd, uint64_t page);
uint64_t parts_line(int fd);
/* It is the image of `line`, from a delta on the image of base_line. */
void parts_expect_applied(int fd, uint64_t base_line, uint64_t line);
struct holding parts_holding(const struct store *store, uint32_t rank);

/* How many descriptors the keeper holds. */
unsigned parts_held(void);
/* The store as the next agent takes it up, as record_adopt() does for one job; the keeper holds parts of
 * these lines, a bit each. */
struct store *parts_adopt(uint64_t lines_expected);
struct store *parts_adopt_protected(uint64_t protected_line, uint64_t lines_expected);

#endif
