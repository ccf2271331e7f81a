/*
 * dlopen.c - see dlopen.h.
 *
 * dlopen() looks at its caller's address: the caller's RUNPATH, $ORIGIN and name space count. So ours looks
 * first and then jumps to the real one, as if it had never been there. What MPI loads is not seen before it
 * is there, but at the next call: libmpi itself opens its components in MPI_Init.
 */
#include "mpi-layer/entry/dlopen.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/escape.h"

typedef void *dlopen_function(const char *file, int mode);

static atomic_bool is_watching;

dlopen_function *belay_before_dlopen(void) __attribute__((visibility("hidden"), used));

static int is_libmpi(struct dl_phdr_info *info, size_t bytes, void *context)
{
    const char *slash = strrchr(info->dlpi_name, '/'), *name = slash ? slash + 1 : info->dlpi_name;
    (void)bytes, (void)context;
    return !strncmp(name, "libmpi.so", strlen("libmpi.so"));
}

/* Of each application context, one rank speaks; a process without a launcher speaks for itself. */
static bool is_speaker(const char *rank)
{
    const char *first = getenv("OMPI_FIRST_RANKS");
    size_t length = rank ? strlen(rank) : 0;
    if (!rank)
        return true;
    for (const char *at = first ? first : "0"; *at;) {
        size_t word = strcspn(at, " ");
        if (word == length && !strncmp(at, rank, length))
            return true;
        at += word + (at[word] == ' ');
    }
    return false;
}

static void say_unprotected(void)
{
    char program[PATH_MAX], text[PATH_MAX], line[2 * PATH_MAX];
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *late = getenv("BELAY_LATE_MPI");
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = 0;
    const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program; /* as in late.c */
    if (!is_speaker(rank))
        return;
    if (rank || getenv("PMIX_RANK"))
        snprintf(
            text, sizeof text,
            "belay: %.255s loads MPI while it runs and is not protected: set BELAY_LATE_MPI=%.2048s%s%.255s",
            name, late ? late : "", late && *late ? ":" : "", name);
    else
        snprintf(text, sizeof text,
                 "belay: %.255s loads MPI while it runs and is not protected: start it by mpirun", name);
    size_t used = escape_line(line, sizeof line - 1, text);
    line[used] = '\n';
    ssize_t ignored = write(STDERR_FILENO, line, used + 1);
    (void)ignored;
}

void dlopen_watch(void)
{
    is_watching = true;
}

/* Before each dlopen(); returns the real one. */
dlopen_function *belay_before_dlopen(void)
{
    static dlopen_function *_Atomic real;
    if (!real)
        real = (dlopen_function *)dlsym(RTLD_NEXT, "dlopen");
    if (is_watching && dl_iterate_phdr(is_libmpi, NULL) && atomic_exchange(&is_watching, false))
        say_unprotected();
    return real;
}

__attribute__((naked, visibility("default"))) void *dlopen(const char *file, int mode)
{
    (void)file, (void)mode;
    __asm__("push %rdi\n\t"
            "push %rsi\n\t"
            "sub $8, %rsp\n\t"
            "call belay_before_dlopen\n\t"
            "add $8, %rsp\n\t"
            "pop %rsi\n\t"
            "pop %rdi\n\t"
            "jmp *%rax");
}
