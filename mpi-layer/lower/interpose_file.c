/* interpose_file.c - see interpose_file.h. */
#include "mpi-layer/lower/interpose_file.h"

#include <aio.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "mpi-layer/lower/vk_fd.h"
#include "mpi-layer/lower/vk_lease.h"
#include "mpi-layer/lower/vk_undo.h"

struct watch {
    dev_t device;
    ino_t inode;
    struct watch *next;
};

typedef ssize_t pwrite_f(int, const void *, size_t, off_t);
typedef ssize_t pwritev_f(int, const struct iovec *, int, off_t);
typedef int ftruncate_f(int, off_t);
typedef int aio_write_f(struct aiocb *);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct watch *first; /* of the files that are open now; one for each open */

void *interpose_watch(const char *path)
{
    struct stat st;
    struct watch *watch = stat(path, &st) == 0 ? malloc(sizeof *watch) : NULL;
    if (!watch)
        return NULL;
    pthread_mutex_lock(&mutex);
    *watch = (struct watch){st.st_dev, st.st_ino, first};
    first = watch;
    pthread_mutex_unlock(&mutex);
    return watch;
}

void interpose_unwatch(void *watch)
{
    struct watch **link = &first;
    pthread_mutex_lock(&mutex);
    while (*link && *link != watch)
        link = &(*link)->next;
    if (*link)
        *link = (*link)->next;
    vk_fd_unwatch_all();
    pthread_mutex_unlock(&mutex);
    free(watch);
}

static bool is_watched(int fd)
{
    struct stat st;
    bool is_found = false;
    if (vk_fd_is_watched(fd))
        return true;
    if (!__atomic_load_n(&first, __ATOMIC_RELAXED) || fstat(fd, &st) || !S_ISREG(st.st_mode))
        return false;
    pthread_mutex_lock(&mutex);
    for (const struct watch *watch = first; watch && !is_found; watch = watch->next)
        is_found = watch->inode == st.st_ino && watch->device == st.st_dev;
    if (is_found)
        vk_fd_watch(fd);
    pthread_mutex_unlock(&mutex);
    return is_found;
}

static void note(int fd, off_t offset, uint64_t bytes)
{
    if (offset < 0 || !is_watched(fd))
        return;
    vk_lease_check_lower();
    vk_undo_fd(fd, (uint64_t)offset, bytes);
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
    static pwrite_f *next;
    if (!next)
        next = (pwrite_f *)dlsym(RTLD_NEXT, "pwrite");
    note(fd, offset, bytes);
    return next(fd, data, bytes, offset);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    static pwritev_f *next;
    uint64_t bytes = 0;
    if (!next)
        next = (pwritev_f *)dlsym(RTLD_NEXT, "pwritev");
    for (int i = 0; i < count; i++)
        bytes += parts[i].iov_len;
    note(fd, offset, bytes);
    return next(fd, parts, count, offset);
}

int ftruncate(int fd, off_t length)
{
    static ftruncate_f *next;
    if (!next)
        next = (ftruncate_f *)dlsym(RTLD_NEXT, "ftruncate");
    note(fd, length, VK_UNDO_WHOLE);
    return next(fd, length);
}

int aio_write(struct aiocb *operation)
{
    static aio_write_f *next;
    if (!next)
        next = (aio_write_f *)dlsym(RTLD_NEXT, "aio_write");
    note(operation->aio_fildes, operation->aio_offset, operation->aio_nbytes);
    return next(operation);
}
