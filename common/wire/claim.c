#include "common/wire/claim.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/wire/placement.h"

#define CLAIM_BYTES 128u
#define CLAIM_FORMAT "belay-arbiter-1 %64s %10" SCNu32 " %16" SCNx64

_Static_assert(HOST_NAME_MAX == 64, "CLAIM_FORMAT has this number");

static int open_in(const char *folder, int flags)
{
    char path[PATH_MAX];
    struct stat st;
    if (snprintf(path, sizeof path, "%s/" CLAIM_NAME, folder) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid()))
        return fd;
    close(fd);
    errno = EBADMSG;
    return -1;
}

int claim_read(const char *folder, struct claim *claim)
{
    char text[CLAIM_BYTES + 1] = "";
    int fd = open_in(folder, O_RDONLY);
    if (fd < 0)
        return -1;
    ssize_t got = pread(fd, text, CLAIM_BYTES, 0);
    int code = got < 0 ? errno : EBADMSG;
    close(fd);
    struct claim found = {0};
    if (got == CLAIM_BYTES && sscanf(text, CLAIM_FORMAT, found.host, &found.epoch, &found.token) == 3 &&
        placement_is_host_name(found.host)) {
        *claim = found;
        return 0;
    }
    errno = code;
    return -1;
}

int claim_write(const char *folder, const struct claim *claim, struct belay_error *err)
{
    char text[CLAIM_BYTES + 1];
    int fd = open_in(folder, O_WRONLY | O_CREAT);
    if (fd < 0)
        return belay_error_errno(err, "cannot claim the job in %s", folder);
    int used = snprintf(text, sizeof text, "belay-arbiter-1 %s %" PRIu32 " %016" PRIx64, claim->host,
                        claim->epoch, claim->token);
    memset(text + used, ' ', CLAIM_BYTES - (size_t)used);
    text[CLAIM_BYTES - 1] = '\n';
    ssize_t done = pwrite(fd, text, CLAIM_BYTES, 0);
    if (done >= 0 && done != CLAIM_BYTES)
        errno = ENOSPC;
    int rc = done == CLAIM_BYTES && fsync(fd) == 0 ? 0 : -1, code = errno;
    close(fd);
    errno = code;
    return rc == 0 ? 0 : belay_error_errno(err, "cannot claim the job in %s", folder);
}
