/*
 * undo_log.h - for tests of putting files back: a folder with files, and logs as ranks would write them.
 */
#ifndef BELAY_NODE_AGENT_TEST_UNDO_LOG_H
#define BELAY_NODE_AGENT_TEST_UNDO_LOG_H

#include "common/wire/undo.h"
#include "node-agent/undo/undo.h"

extern struct undo_folder folder;
extern bool leaves_failed;  /* what apply() asks for */
extern uint64_t keeps_from; /* ... 0 unless a test sets it */
extern char told[4096];     /* of files that were left as they are, by lines */

int undo_log_setup(void **state);
int undo_log_teardown(void **state);

/* The path of a name in the test's folder; valid for eight calls. */
const char *path_of(const char *name);
void write_file(const char *name, const char *text);
void assert_file(const char *name, const char *text);
void assert_absent(const char *name);
struct file_id id_of(const char *name);

/* Before a change: note what is at `name`. Times count up. */
void note_length(unsigned line, unsigned rank, const char *name);
void note_attributes(unsigned line, unsigned rank, const char *name);
void note_node(unsigned line, unsigned rank, const char *name);
void note_data(unsigned line, unsigned rank, const char *name, uint64_t offset, uint64_t bytes);
void note_hole(unsigned line, unsigned rank, const char *name, uint64_t offset, uint64_t bytes);
uint64_t note_created(unsigned line, unsigned rank, const char *name);
void note_made(unsigned line, unsigned rank, const char *name, uint64_t announced);
void note_withdrawn(unsigned line, unsigned rank, uint64_t announced);
/* is_copied: as if the undo folder were on another file system. */
uint64_t note_removed(unsigned line, unsigned rank, const char *name, bool is_copied);
uint64_t note_folder(unsigned line, unsigned rank, const char *name);
uint64_t note_link(unsigned line, unsigned rank, const char *name);
uint64_t note_renamed(unsigned line, unsigned rank, const char *from, const char *to, unsigned flags);
void note_unprotected(unsigned line, unsigned rank, const char *name);

/* Any entry; `bytes` of it at most. Returns its time. */
uint64_t log_part(unsigned line, unsigned rank, struct undo_entry entry, const char *name, const void *data,
                  size_t bytes);

/* undo_apply() to a line; how many files were left in *left. */
int apply(uint64_t line, uint64_t *left, struct belay_error *err);
void must_apply(uint64_t line, uint64_t left);

#endif
