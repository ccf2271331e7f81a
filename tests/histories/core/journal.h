/*
 * journal.h - what happened, a line a step: the operation, what it was given, what it answered, and from time
 * to time a digest of everything that each kind can observe. Journals of one seed are the same, byte by byte,
 * in all runs.
 *
 * So nothing goes into it that may differ: no addresses, process ids, times, inode numbers, and of
 * descriptors' numbers only those that the history has chosen itself.
 */
#ifndef BELAY_TESTS_HISTORIES_CORE_JOURNAL_H
#define BELAY_TESTS_HISTORIES_CORE_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Open FOLDER/journal-RANK, at a number that is in nobody's way; is_detailed: write out each observation. */
void journal_open(const char *folder, int rank, bool is_detailed);
void journal_close(void);

/* In a forked child: lines go nowhere, but for the digest, which begins anew. */
void journal_detach(void);

/* A line: begun by one call, written by the other. In between the functions below add to it. */
void journal_begin(long step, const char *kind, const char *operation);
void journal_end(void);

/* Add text to the line. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Add " = RESULT", for -1 with the name of errno; the result. */
long answer(long result);

/* The same for functions that return the error, 0: none (pthreads). */
int answer_error(int error);

/* Add a digest of the bytes. */
void say_bytes(const void *data, size_t bytes);

/* What should be so is not; natively this is a mistake of the history itself. */
void wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Observations of a kind: between these two calls, note() and note_bytes() go into its digest. */
void observation_begin(const char *kind);
void observation_end(void);
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void note_bytes(const char *what, const void *data, size_t bytes);

/* The digest of all lines so far. */
uint64_t journal_digest(void);

/* True if something was wrong in a line so far. */
bool journal_has_wrong(void);

/* A number that depends on the bytes; fast enough for megabytes. */
uint64_t sum_of(const void *data, size_t bytes);

const char *error_name(int error);

#endif
