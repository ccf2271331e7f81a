#include "common/wire/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIXED_SIZE (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define ANONYMOUS "anon_inode:"
#define PAGE_BYTES 4096ull

int descriptor_make_memory(const char *name, uint64_t bytes, struct belay_error *err)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, FIXED_SIZE) == 0)
        return fd;
    belay_error_errno(err, "cannot make memory to share (%s)", name);
    int code = errno;
    if (fd >= 0)
        close(fd);
    errno = code;
    return -1;
}

int descriptor_check_memory(int fd, uint64_t bytes, const char *what, struct belay_error *err)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals >= 0 && (seals & FIXED_SIZE) == FIXED_SIZE && !(seals & F_SEAL_WRITE) && fstat(fd, &st) == 0 &&
        S_ISREG(st.st_mode) && (uint64_t)st.st_size == bytes)
        return 0;
    return belay_error_set(err, EPROTO,
                           "%s is of a wrong kind or size; is the agent another version of Belay?", what);
}

int descriptor_check_kind(int fd, const char *kind, const char *what, struct belay_error *err)
{
    char link[64], name[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof name - 1);
    name[length > 0 ? length : 0] = '\0';
    if (!strncmp(name, ANONYMOUS, sizeof ANONYMOUS - 1) && !strcmp(name + sizeof ANONYMOUS - 1, kind))
        return 0;
    return belay_error_set(err, EPROTO,
                           "%s is of a wrong kind or size; is the agent another version of Belay?", what);
}

/* Populated first: without memory, that fails; a touch would end in SIGBUS. */
int descriptor_put(int fd, uint64_t offset, const void *from, size_t bytes)
{
    uint64_t start = offset & ~(PAGE_BYTES - 1), skipped = offset - start;
    char *at = mmap(NULL, skipped + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)start);
    if (at == MAP_FAILED)
        return -1;
    int rc = madvise(at, skipped + bytes, MADV_POPULATE_WRITE), code = errno;
    if (rc == 0)
        memcpy(at + skipped, from, bytes);
    munmap(at, skipped + bytes);
    errno = code;
    return rc;
}
