/*
 * file_tokens.h - the tokens of the files that a process has mapped, kept from line to line.
 *
 * Files that change between two lines have none, so that nobody reads them at each line: a restart knows them
 * by their time of change, which is put back with them.
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_FILE_TOKENS_H
#define BELAY_NODE_AGENT_CAPTURE_FILE_TOKENS_H

#include <stdint.h>
#include <sys/stat.h>

struct file_tokens;

/* NULL with ENOMEM. */
struct file_tokens *file_tokens_create(void);
/* Accepts NULL. */
void file_tokens_destroy(struct file_tokens *tokens);

/* The token of the file `path`, of which stat() has told st. FILE_TOKEN_NONE: there is none. */
uint64_t file_tokens_find(struct file_tokens *tokens, const char *path, const struct stat *st);

#endif
