#include "cmd/string_list.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/array.h"

/* Add a string that the list will own; it is freed if that fails. */
static int add_owned(struct string_list *list, char *text)
{
    if (!text)
        return -1;
    if (array_reserve(&list->items, list->count + 2, &list->room) < 0) {
        free(text);
        return -1;
    }
    list->items[list->count++] = text;
    list->items[list->count] = NULL;
    return 0;
}

int string_list_add(struct string_list *list, const char *text)
{
    return add_owned(list, strdup(text));
}

int string_list_addf(struct string_list *list, const char *format, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, format);
    if (vasprintf(&text, format, ap) < 0)
        text = NULL;
    va_end(ap);
    return add_owned(list, text);
}

char **string_list_copy(char *const items[], size_t count)
{
    struct string_list list = {.items = calloc(count + 1, sizeof *items), .room = count + 1};
    if (!list.items)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        if (string_list_add(&list, items[i])) {
            string_list_free(list.items);
            return NULL;
        }
    }
    return list.items;
}

size_t string_list_count(char *const items[])
{
    size_t count = 0;
    while (items && items[count])
        count++;
    return count;
}

char **string_list_finish(struct string_list *list, int rc)
{
    if (rc == 0)
        return list->items;
    string_list_free(list->items);
    return NULL;
}

void string_list_free(char **items)
{
    int saved = errno;
    for (size_t i = 0; items && items[i]; i++)
        free(items[i]);
    free(items);
    errno = saved;
}

const char *string_list_value(char *const items[], const char *name)
{
    size_t length = strlen(name);
    for (; items && *items; items++)
        if (!strncmp(*items, name, length) && (*items)[length] == '=')
            return *items + length + 1;
    return NULL;
}
