/*
 * installed.h - the installed layout in a temporary folder: the belay that was built, and the running test
 * program itself in the place of belayd (fake_agent.h). A run of this belay, and what it left. A step that
 * fails, fails the test.
 */
#ifndef BELAY_CMD_TEST_INSTALLED_H
#define BELAY_CMD_TEST_INSTALLED_H

#include <sys/types.h>

#define TEXT_BYTES 4096
#define DEADLINE_S 20 /* of a run */

extern char said[TEXT_BYTES];    /* stderr of the last run */
extern char printed[TEXT_BYTES]; /* its stdout */
extern char journal[TEXT_BYTES]; /* what the agent was asked */

/* For a group of tests: make the folder, and remove it. 0, or another value on failure. */
int set_up(void **state);
int tear_down(void **state);

/* A name in the folder, as a path in one of two buffers that are used in turn. */
char *path_of(const char *name);
/* The beginning of a file, in text[TEXT_BYTES]. */
void read_text(int fd, char *text);
void write_text(const char *name, const char *text);

/* The arguments of a run of the job "j". */
#define RUN(...) ((char *[]){"belay", "run", "--name", "j", __VA_ARGS__, NULL})

/* Start a run in the folder, with this script for the agent; finish_run() closes *out and *err. */
pid_t start_run(const char *script, char *const argv[], int *out, int *err);
/* Wait for its end and read what it left. Returns its exit code, or -signal. */
int finish_run(pid_t pid, int out, int err);
/* Both. */
int run(const char *script, char *const argv[]);

void expect_said(const char *part);
void expect_silence(void);
/* Wait until the launch has made the file "ready". */
void wait_ready(void);

#endif
