/*
 * entry.c - libbelay.so: preloaded into everything below the launcher, it turns MPI programs into ranks.
 *
 * A rank is executed again, and its constructors run there. So ours has to be the first here (ld -z
 * initfirst): what another one does before us is done twice, and what it sets for the process (timers, a mask
 * of signals) outlives the exec. Even the C library's own constructors have not run yet.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/util/escape.h"
#include "common/wire/control.h"
#include "mpi-layer/entry/dlopen.h"
#include "mpi-layer/entry/late.h"
#include "mpi-layer/entry/unfit.h"
#include "mpi-layer/lower/confine.h"

#define LIBRARY "libbelay.so"

/* Where this library lies: belay-launch lies beside it. */
static int own_directory(char path[PATH_MAX])
{
    Dl_info info;
    char *slash;
    if (!dladdr((void *)(uintptr_t)&own_directory, &info) || !realpath(info.dli_fname, path) ||
        !(slash = strrchr(path, '/')))
        return -1;
    *slash = 0;
    return 0;
}

static int is_ours(const char *name, size_t length)
{
    const size_t ours = sizeof LIBRARY - 1;
    return length >= ours && !strncmp(name + length - ours, LIBRARY, ours) &&
           (length == ours || name[length - ours - 1] == '/');
}

/* The user's own preloads, in their order, without this library. Freed by nobody: exec follows. */
static char *other_preloads(const char *list)
{
    char *out = calloc(strlen(list) + 2, 1);
    for (const char *at = list; out && *at;) {
        at += strspn(at, ": ");
        size_t length = strcspn(at, ": ");
        if (length && !is_ours(at, length)) {
            if (*out)
                strcat(out, ":");
            strncat(out, at, length);
        }
        at += length;
    }
    return out;
}

/*
 * The first program that the launcher starts, be it a script, has the launcher's streams; what follows may
 * have others. So they are noted here, for belay-launch.
 */
static void note_streams(void)
{
    char text[160];
    int used = 0;
    bool is_launched = getenv("OMPI_COMM_WORLD_RANK") || getenv("PMIX_RANK");
    if (!is_launched || getenv("BELAY_STREAMS"))
        return;
    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        struct stat st = {0};
        fstat(fd, &st);
        used += snprintf(text + used, sizeof text - (size_t)used, "%lx:%lx ", (unsigned long)st.st_dev,
                         (unsigned long)st.st_ino);
    }
    setenv("BELAY_STREAMS", text, 1);
}

static void refuse(const char *what, const char *name, const char *why) __attribute__((noreturn));

static void refuse(const char *what, const char *name, const char *why)
{
    fprintf(stderr, "belay: %s", what);
    escape_print(stderr, name);
    fprintf(stderr, "%s\n", why);
    _exit(CONTROL_REFUSED_STATUS);
}

static int own_program(char path[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = 0;
    return length > 0 ? 0 : -1;
}

/*
 * The command as it was given, if the program was started by way of the dynamic linker (`ld.so ./app`): that
 * is the executable then, and takes its own arguments from main's. Returns their number, 0: it was not.
 */
static int linker_command(char ***argv)
{
    static char text[1 << 20];
    int fd = getauxval(AT_BASE) ? -1 : open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC), count = 0;
    ssize_t bytes = 0, got = 1;
    while (fd >= 0 && got > 0 && (got = read(fd, text + bytes, sizeof text - 1 - (size_t)bytes)) > 0)
        bytes += got;
    if (fd >= 0)
        close(fd);
    *argv = bytes > 0 ? calloc((size_t)bytes + 1, sizeof **argv) : NULL;
    for (char *word = text; *argv && word < text + bytes; word += strlen(word) + 1)
        (*argv)[count++] = word;
    return count;
}

/*
 * AddressSanitizer wants to be the first library, and asks this function for its settings before it looks: in
 * this process we come first, but nothing of the program runs. In the rank it is the first.
 */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "verify_asan_link_order=0";
}

/*
 * Another library that has to be the first may have kept us from it, and profiling may have begun. An
 * interval timer goes on behind the exec, its handler does not, and its signal would end the process. Those
 * without a handler are inherited from the launcher.
 */
static void stop_timers(void)
{
    static const int signals[] = {
        [ITIMER_REAL] = SIGALRM, [ITIMER_VIRTUAL] = SIGVTALRM, [ITIMER_PROF] = SIGPROF};
    const struct itimerval never = {{0, 0}, {0, 0}};
    for (int which = ITIMER_REAL; which <= ITIMER_PROF; which++) {
        struct sigaction action;
        if (sigaction(signals[which], NULL, &action) == 0 && action.sa_handler != SIG_DFL &&
            action.sa_handler != SIG_IGN)
            setitimer((__itimer_which_t)which, &never, NULL);
    }
}

static void become_rank(const char *program, int argc, char **argv)
{
    char launcher[PATH_MAX + 32], directory[PATH_MAX], native[CONFINE_TEXT_BYTES];
    char **arguments = calloc((size_t)argc + 9, sizeof *arguments);
    char *others = other_preloads(getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "");
    if (!*program || !arguments || !others || own_directory(directory))
        refuse("cannot protect ", argv[0], ": its path or mine is unknown");
    snprintf(launcher, sizeof launcher, "%s/belay-launch", directory);
    int used = 0;
    arguments[used++] = launcher;
    arguments[used++] = (char *)(uintptr_t) "--native";
    arguments[used++] = native;
    arguments[used++] = (char *)(uintptr_t) "--executed";
    arguments[used++] = (char *)getauxval(AT_EXECFN);
    arguments[used++] = (char *)(uintptr_t) "--argv0";
    arguments[used++] = argv[0];
    arguments[used++] = (char *)(uintptr_t) "--";
    arguments[used++] = (char *)(uintptr_t)program;
    for (int i = 1; i < argc; i++)
        arguments[used++] = argv[i];
    /* The lower half runs without preloads; the upper half gets the user's back. */
    unsetenv("LD_PRELOAD");
    setenv("BELAY_UPPER_PRELOAD", others, 1);
    stop_timers();
    confine_begin(native);
    execv(launcher, arguments);
    char why[256];
    snprintf(why, sizeof why, ": %m (is Belay installed whole?)");
    refuse("cannot start ", launcher, why);
}

/* What the program is linked with, as its dynamic linker has loaded it. */
enum linked { LINKED_WITHOUT = 0, LINKED, LINKED_OTHERWISE };

/* libmpi.so, libmpi.so.40, libmpi.so.40.30.4: what ours stands in for. */
static bool is_libmpi(const char *path)
{
    static const char libmpi[] = "libmpi.so";
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path,
               *rest = name + sizeof libmpi - 1;
    return !strncmp(name, libmpi, sizeof libmpi - 1) && (!*rest || !strncmp(rest, ".40", 3));
}

/* Open MPI under another name or of another version has the same object in it; other MPIs have not. */
static enum linked look_at_libraries(void)
{
    struct link_map *map = NULL;
    void *program = dlopen(NULL, RTLD_LAZY);
    if (!program || dlinfo(program, RTLD_DI_LINKMAP, &map))
        return LINKED_WITHOUT;
    for (; map; map = map->l_next)
        if (is_libmpi(map->l_name))
            return LINKED;
    return dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world") ? LINKED_OTHERWISE : LINKED_WITHOUT;
}

static bool is_disabled(int argc)
{
    return argc < 1 || getenv("BELAY_DISABLE");
}

__attribute__((constructor)) static void belay_entry(int argc, char **argv, char **variables)
{
    char program[PATH_MAX], reason[256] = " ", **command;
    if (!environ) /* the C library's constructor sets it to the same */
        environ = variables;
    if (is_disabled(argc))
        return;
    int is_known = own_program(program) == 0;
    /* A rank's own preload list no longer has us. */
    enum linked linked = look_at_libraries();
    if (linked == LINKED_OTHERWISE)
        refuse("", argv[0],
               " is linked with an Open MPI that is not called libmpi.so.40: it cannot be protected");
    if (linked != LINKED && !(is_known && late_is_rank(program, argc, argv))) {
        dlopen_watch();
        return;
    }
    if (unfit_reason(reason + 1, sizeof reason - 1))
        refuse("", argv[0], reason);
    note_streams();
    int words = linker_command(&command);
    become_rank(program, words ? words : argc, words ? command : argv);
}

typedef int start_f(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void),
                    void (*)(void), void *);
__attribute__((visibility("default"))) start_f __libc_start_main;

/*
 * Called by each program's first instructions. What a constructor as early as ours adds to the environment,
 * the C library's forgets; from here on it stays.
 */
int __libc_start_main(int (*start)(int, char **, char **), int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void *stack_end)
{
    start_f *next = (start_f *)dlsym(RTLD_NEXT, "__libc_start_main");
    if (!is_disabled(argc))
        note_streams();
    return next(start, argc, argv, init, fini, rtld_fini, stack_end);
}
