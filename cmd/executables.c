#include "cmd/executables.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/launch_line.h"

#define PROGRAM_HEADERS_MAX 128

/* Does its dynamic section give it a name as a library? So it is with the dynamic linker itself. */
static bool has_soname(int fd, const Elf64_Phdr *dynamic)
{
    Elf64_Dyn entry = {.d_tag = DT_NULL};
    for (uint64_t at = 0; at + sizeof entry <= dynamic->p_filesz; at += sizeof entry) {
        if (pread(fd, &entry, sizeof entry, (off_t)(dynamic->p_offset + at)) != sizeof entry ||
            entry.d_tag == DT_NULL)
            return false;
        if (entry.d_tag == DT_SONAME)
            return true;
    }
    return false;
}

/* Is this an executable for this machine without an interpreter (a dynamic linker)? */
static bool is_static(int fd)
{
    Elf64_Ehdr header;
    Elf64_Phdr parts[PROGRAM_HEADERS_MAX];
    if (pread(fd, &header, sizeof header, 0) != sizeof header || memcmp(header.e_ident, ELFMAG, SELFMAG) ||
        header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof parts[0] ||
        header.e_phnum > PROGRAM_HEADERS_MAX)
        return false;
    size_t bytes = header.e_phnum * sizeof parts[0];
    if (pread(fd, parts, bytes, (off_t)header.e_phoff) != (ssize_t)bytes)
        return false;
    for (size_t i = 0; i < header.e_phnum; i++)
        if (parts[i].p_type == PT_INTERP || (parts[i].p_type == PT_DYNAMIC && has_soname(fd, &parts[i])))
            return false;
    return true;
}

/* Open a program as execvp() would find it; -1 if it is not there. */
static int open_program(const char *program)
{
    char path[PATH_MAX];
    const char *at = getenv("PATH");
    int fd = -1;
    if (strchr(program, '/'))
        return open(program, O_RDONLY | O_CLOEXEC);
    while (fd < 0 && at && *at) {
        int length = (int)strcspn(at, ":");
        if (snprintf(path, sizeof path, "%.*s/%s", length, at, program) < PATH_MAX)
            fd = open(path, O_RDONLY | O_CLOEXEC);
        at += length + (at[length] == ':');
    }
    return fd;
}

static int check_program(const char *program, struct belay_error *err)
{
    int fd = open_program(program);
    if (fd < 0)
        return 0;
    bool is_refused = is_static(fd);
    close(fd);
    if (is_refused)
        return belay_error_set(err, ENOEXEC,
                               "%s is statically linked and cannot be protected: link it dynamically, "
                               "or run it without belay",
                               program);
    return 0;
}

int executables_check(char *const argv[], struct belay_error *err)
{
    if (!launch_line_is_known(argv[0]))
        return 0;
    for (size_t at = 1; argv[at];) {
        const char *program = launch_line_program(argv, &at);
        if (program && check_program(program, err))
            return -1;
    }
    return 0;
}
