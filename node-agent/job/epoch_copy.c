#include "node-agent/job/epoch_copy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/log.h"
#include "common/wire/epoch_record.h"
#include "coord/epoch_message.h"

static void name_of(const struct epoch_copy *copy, char name[KEEPER_NAME_BYTES]);
static int write_copy(const struct epoch_copy *copy, const struct epoch_start *start,
                      struct belay_error *err);
static struct epoch_start *read_copy(int fd, const char *job);

void epoch_copy_init(struct epoch_copy *copy, struct keeper *keeper, const char *job)
{
    *copy = (struct epoch_copy){.keeper = keeper, .fd = -1};
    snprintf(copy->job, sizeof copy->job, "%s", job);
}

void epoch_copy_adopt(struct epoch_copy *copy, int fd)
{
    char name[KEEPER_NAME_BYTES];
    struct belay_error err;
    if (fd < 0)
        return;
    name_of(copy, name);
    copy->start = read_copy(fd, copy->job);
    if (copy->start && keeper_put(copy->keeper, name, fd, &err) == 0) {
        copy->fd = fd;
        return;
    }
    log_warning("job \"%s\": the copy of its arbiter's record cannot be used: %s", copy->job,
                copy->start ? err.text : strerror(errno));
    free(copy->start);
    copy->start = NULL;
    close(fd);
}

int epoch_copy_keep(struct epoch_copy *copy, const struct epoch_start *start, struct belay_error *err)
{
    char name[KEEPER_NAME_BYTES];
    struct epoch_start *kept = epoch_start_copy(start);
    int fd = kept ? write_copy(copy, start, err) : -1;
    if (!kept)
        belay_error_set(err, ENOMEM, "no memory for the record of an epoch");
    name_of(copy, name);
    if (fd < 0 || keeper_put(copy->keeper, name, fd, err) < 0) {
        if (fd >= 0)
            close(fd);
        free(kept);
        return -1;
    }
    if (copy->fd >= 0)
        close(copy->fd);
    free(copy->start);
    copy->fd = fd;
    copy->start = kept;
    return 0;
}

void epoch_copy_drop(struct epoch_copy *copy)
{
    char name[KEEPER_NAME_BYTES];
    name_of(copy, name);
    if (copy->fd >= 0) {
        keeper_drop(copy->keeper, name, NULL);
        close(copy->fd);
    }
    free(copy->start);
    copy->fd = -1;
    copy->start = NULL;
}

static void name_of(const struct epoch_copy *copy, char name[KEEPER_NAME_BYTES])
{
    snprintf(name, KEEPER_NAME_BYTES, "%s/arbiter", copy->job);
}

/* Returns a new descriptor, or -1 with err. */
static int write_copy(const struct epoch_copy *copy, const struct epoch_start *start, struct belay_error *err)
{
    const Belay__Wire__EpochRecord record = epoch_message_of_start(start, copy->job);
    size_t count = 0;
    uint8_t *bytes = epoch_record_pack(&record, &count);
    int fd = bytes ? memfd_create("belay-arbiter", MFD_CLOEXEC) : -1;
    if (fd >= 0 && pwrite(fd, bytes, count, 0) == (ssize_t)count) {
        free(bytes);
        return fd;
    }
    belay_error_errno(err, "cannot keep the record of an epoch");
    if (fd >= 0)
        close(fd);
    free(bytes);
    return -1;
}

/* NULL with errno. */
static struct epoch_start *read_copy(int fd, const char *job)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return NULL;
    if (st.st_size <= 0 || st.st_size > EPOCH_RECORD_MAX_BYTES) {
        errno = EBADMSG;
        return NULL;
    }
    uint8_t *bytes = malloc((size_t)st.st_size);
    bool is_read = bytes && pread(fd, bytes, (size_t)st.st_size, 0) == st.st_size;
    Belay__Wire__EpochRecord *record = is_read ? epoch_record_unpack(bytes, (size_t)st.st_size, job) : NULL;
    struct epoch_start *start = record ? epoch_message_to_start(record) : NULL;
    int code = errno;
    epoch_record_free(record);
    free(bytes);
    errno = code;
    return start;
}
