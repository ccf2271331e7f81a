/*
 * vk_stand_in.c - opening MPI's libraries. A path of the installed libmpi means ours to the application,
 * wherever the loader looks for it: so ours has the place in the order of search that the installed one has
 * without Belay. libmpi_mpifh and libmpi_cxx have a few functions that read the library's own objects. In
 * their place comes a library with ours (mpi-layer/fortran/bindings.h), which needs the installed one by a
 * name that stands here for the folder where the program asked for it.
 */
#include "mpi-layer/lower/vk_stand_in.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mpi-layer/lower/vk.h"

#define INSTALLED "/.belay/" /* and a number and a slash: a folder that there is not */
#define PATH_BYTES 4096
/* Paths are made on the stack of the application: by functions that are called for these libraries alone. */
#define COUNT (sizeof libraries / sizeof libraries[0])

static const struct {
    const char *name; /* with any number behind that begins with .40 */
    const char *ours;
} libraries[] = {
    {"libmpi.so", "libmpi.so.40"},
    {"libmpi_mpifh.so", "libmpi_mpifh.so.40"}, /* .belay/1 */
    {"libmpi_cxx.so", "libmpi_cxx.so.40"},     /* .belay/2 */
};

_Static_assert(COUNT == sizeof VK->stood_for / sizeof VK->stood_for[0], "gate.h");

static size_t length_of(const char *text)
{
    size_t length = 0;
    while (text[length])
        length++;
    return length;
}

static bool begins_with(const char *text, const char *beginning)
{
    while (*beginning && *text == *beginning)
        text++, beginning++;
    return !*beginning;
}

static const char *name_in(const char *path)
{
    const char *name = path;
    for (const char *at = path; *at; at++)
        if (*at == '/')
            name = at + 1;
    return name;
}

/* Put together a path. False: it is too long. */
static bool join(char path[PATH_BYTES], const char *folder, size_t folder_bytes, const char *name)
{
    size_t name_bytes = length_of(name);
    if (folder_bytes + name_bytes >= PATH_BYTES)
        return false;
    for (size_t i = 0; i < folder_bytes; i++)
        path[i] = folder[i];
    for (size_t i = 0; i <= name_bytes; i++)
        path[folder_bytes + i] = name[i];
    return true;
}

/* Which library a path is of, by its name; COUNT: none. */
static size_t library_of(const char *path)
{
    const char *name = name_in(path);
    for (size_t i = 0; i < COUNT; i++) {
        const char *rest = name + length_of(libraries[i].name);
        if (begins_with(name, libraries[i].name) && (!*rest || begins_with(rest, ".40")))
            return i;
    }
    return COUNT;
}

/* The loader looks in many folders: only where there is an installed one there is ours. */
static __attribute__((noinline)) long open_ours(size_t library, long folder, const char *path, long flags)
{
    char ours[PATH_BYTES], *stood_for = VK->stood_for[library];
    size_t bytes = (size_t)(name_in(path) - path);
    long result = raw4(SYS_faccessat, folder, path, R_OK, 0);
    if (result < 0)
        return result;
    if (!join(stood_for, path, bytes, "") ||
        !join(ours, VK->stand_ins, length_of(VK->stand_ins), libraries[library].ours))
        return -ENAMETOOLONG;
    return raw4(SYS_openat, AT_FDCWD, ours, flags, 0);
}

static __attribute__((noinline)) long open_installed(const char *path, long flags)
{
    char installed[PATH_BYTES];
    size_t library = (size_t)(path[sizeof INSTALLED - 1] - '0');
    const char *rest = path + sizeof INSTALLED;
    if (library >= COUNT || *rest != '/')
        return -ENOENT;
    const char *folder = VK->stood_for[library];
    if (!join(installed, folder, length_of(folder), rest + 1))
        return -ENAMETOOLONG;
    return raw4(SYS_openat, AT_FDCWD, installed, flags, 0);
}

bool vk_stand_in_is(const char *path, long flags)
{
    if ((flags & (O_ACCMODE | O_CREAT | O_PATH)) != O_RDONLY || !path || !VK->stand_ins[0] || !vk_is_rank())
        return false;
    return begins_with(path, INSTALLED) || library_of(path) < COUNT;
}

bool vk_stand_in_open(long folder, const char *path, long flags, long *result)
{
    if (!vk_stand_in_is(path, flags))
        return false;
    *result = begins_with(path, INSTALLED) ? open_installed(path, flags)
                                           : open_ours(library_of(path), folder, path, flags);
    return true;
}
