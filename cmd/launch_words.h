/*
 * launch_words.h - the words of an mpirun line: which are options, and how many values follow them.
 */
#ifndef BELAY_CMD_LAUNCH_WORDS_H
#define BELAY_CMD_LAUNCH_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#define LAUNCH_WORDS_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Is the word among these? */
bool launch_words_has(const char *const *words, size_t count, const char *word);

/* The option's name behind one or two dashes; NULL if the word is not an option. */
const char *launch_words_option(const char *word);
/* How many words are its values. */
size_t launch_words_values(const char *option);

/* Does another application context begin behind the word? */
bool launch_words_is_separator(const char *word);

/* Past the options of the context that begins at argv[i]: the index of its program, separator or end. */
size_t launch_words_skip(char *const argv[], size_t i);

#endif
