/*
 * string_list.h - NULL-terminated lists of owned strings, as argv and environ are.
 */
#ifndef BELAY_CMD_STRING_LIST_H
#define BELAY_CMD_STRING_LIST_H

#include <stddef.h>

/* A list being built. Start with zeros. */
struct string_list {
    char **items; /* NULL-terminated once something was added */
    size_t count;
    size_t room;
};

/* Add a copy. Returns 0, or -1 with ENOMEM. */
int string_list_add(struct string_list *list, const char *text);

/* Add a formatted text. Returns 0, or -1 with ENOMEM. */
int string_list_addf(struct string_list *list, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A copy of `count` strings. NULL with ENOMEM. */
char **string_list_copy(char *const items[], size_t count);

/* How many strings a NULL-terminated list has. */
size_t string_list_count(char *const items[]);

/* The items of a list that was built, rc: how that went. Taken over; NULL, with errno as it was, if it has
 * failed. */
char **string_list_finish(struct string_list *list, int rc);

/* Free a list and its strings. Accepts NULL, keeps errno. */
void string_list_free(char **items);

/* The value of NAME in a list of NAME=VALUE, NULL: not there. Borrowed. */
const char *string_list_value(char *const items[], const char *name);

#endif
