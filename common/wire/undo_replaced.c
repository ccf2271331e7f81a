#include "common/wire/undo_replaced.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIST_BYTES_MAX (64l << 20)
#define DEPTH_MAX 64 /* how often one file may have been made anew */

int undo_replaced_read(int folder, struct undo_replaced_list *list)
{
    struct stat st;
    *list = (struct undo_replaced_list){0};
    int fd = folder < 0 ? -1 : openat(folder, UNDO_REPLACED, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return folder < 0 || errno == ENOENT ? 0 : -1;
    bool is_own = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid();
    size_t count = is_own && st.st_size <= LIST_BYTES_MAX ? (size_t)st.st_size / sizeof *list->items : 0;
    size_t bytes = count * sizeof *list->items;
    errno = EBADMSG;
    if (is_own && st.st_size <= LIST_BYTES_MAX)
        list->items = malloc(bytes + 1);
    if (list->items && pread(fd, list->items, bytes, 0) == (ssize_t)bytes)
        list->count = count; /* an item cut short by a kill is none */
    else
        undo_replaced_release(list);
    int code = errno;
    close(fd);
    errno = code;
    return list->items ? 0 : -1;
}

void undo_replaced_release(struct undo_replaced_list *list)
{
    free(list->items);
    *list = (struct undo_replaced_list){0};
}

/* A file may have been made anew several times, one after the other. */
static bool is_now(const struct undo_replaced_list *list, const struct file_id *id, int fd, unsigned depth)
{
    if (file_id_is_of(id, fd))
        return true;
    for (size_t i = list->count; i-- > 0 && depth < DEPTH_MAX;)
        if (file_id_is_same(&list->items[i].former, id) && is_now(list, &list->items[i].now, fd, depth + 1))
            return true;
    return false;
}

bool undo_replaced_is(const struct undo_replaced_list *list, const struct file_id *id, int fd)
{
    return is_now(list, id, fd, 0);
}
