/*
 * names.c - names of files and folders: made, linked, exchanged, removed; the working directory.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/histories/files/descriptors.h"
#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/files/paths.h"
#include "tests/histories/files/tree.h"
#include "tests/histories/core/world.h"

static void act_link(void)
{
    struct path from = path_of_file(), to = path_of_file();
    int flags = chance(30) ? AT_SYMLINK_FOLLOW : 0;
    answer(linkat(from.folder, from.name, to.folder, to.name, flags));
}

/* A name for what is open: a file made without one, or one whose names are gone. */
static void act_link_open(void)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_FILE | DESCRIPTOR_PATH);
    struct path to = path_of_file();
    bool is_by_proc = chance(50);
    char name[64];
    if (!d)
        return;
    snprintf(name, sizeof name, "/proc/self/fd/%d", d->number);
    if (is_by_proc)
        answer(linkat(AT_FDCWD, name, to.folder, to.name, AT_SYMLINK_FOLLOW));
    else
        answer(linkat(d->number, "", to.folder, to.name, AT_EMPTY_PATH)); /* needs CAP_DAC_READ_SEARCH */
}

static void act_symlink(void)
{
    char target[64];
    snprintf(target, sizeof target, "%s%s", chance(30) ? "d0/" : "", path_leaf(chance(30)));
    say(" %s", target);
    struct path path = path_of_file();
    answer(symlinkat(target, path.folder, path.name));
}

static void act_readlink(void)
{
    struct path path = path_of_file();
    char target[64] = "";
    if (answer(readlinkat(path.folder, path.name, target, sizeof target - 1)) > 0)
        say(" %s", target);
}

static void act_rename(void)
{
    bool are_folders = chance(30);
    struct path from = are_folders ? path_of_folder() : path_of_file();
    struct path to = are_folders ? path_of_folder() : path_of_file();
    unsigned flags = (unsigned)PICK_ONE(0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE);
    say(" %x", flags);
    if (flags == 0 && chance(50))
        answer(renameat(from.folder, from.name, to.folder, to.name));
    else
        answer(renameat2(from.folder, from.name, to.folder, to.name, flags));
}

static void act_rename_plain(void)
{
    struct path from = path_plain(false), to = path_plain(false);
    answer(rename(from.name, to.name));
}

static void act_unlink(void)
{
    struct path path = path_of_file();
    answer(unlinkat(path.folder, path.name, 0));
}

static void act_unlink_plain(void)
{
    struct path path = path_plain(false);
    answer(chance(50) ? unlink(path.name) : remove(path.name));
}

static void act_mkdir(void)
{
    struct path path = path_of_folder();
    answer(mkdirat(path.folder, path.name, (mode_t)PICK_ONE(0755, 0700, 0777)));
}

static void act_rmdir(void)
{
    bool is_plain = chance(50);
    struct path path = is_plain ? path_plain(true) : path_of_folder();
    answer(is_plain ? rmdir(path.name) : unlinkat(path.folder, path.name, AT_REMOVEDIR));
}

static void act_fifo(void)
{
    struct path path = path_of_file();
    if (chance(50))
        answer(mkfifoat(path.folder, path.name, 0644));
    else
        answer(mknodat(path.folder, path.name, S_IFIFO | 0600, 0));
}

static void act_chmod(void)
{
    struct path path = path_of_file();
    mode_t mode = (mode_t)PICK_ONE(0644, 0600, 0444, 0755, 04755);
    struct descriptor *d = chance(40) ? descriptor_pick(DESCRIPTOR_FILE) : NULL;
    say(" %o %s", mode, d ? "open" : "");
    answer(d ? fchmod(d->number, mode) : fchmodat(path.folder, path.name, mode, 0));
}

static void act_times(void)
{
    struct path path = path_of_file();
    const struct timespec times[2] = {{(time_t)pick(1000000), 0}, {(time_t)pick(1000000), 0}};
    struct stat stat;
    if (answer(utimensat(path.folder, path.name, times, AT_SYMLINK_NOFOLLOW)) == 0 &&
        fstatat(path.folder, path.name, &stat, AT_SYMLINK_NOFOLLOW) == 0)
        say(" %ld", (long)stat.st_mtime);
}

static void act_stat(void)
{
    struct path path = path_of_file();
    struct stat stat;
    if (answer(fstatat(path.folder, path.name, &stat, chance(50) ? AT_SYMLINK_NOFOLLOW : 0)) == 0)
        say(" %o", mode_told(&stat));
    answer(faccessat(path.folder, path.name, R_OK | W_OK, 0));
}

static void act_chdir(void)
{
    struct descriptor *d = chance(40) ? descriptor_pick(DESCRIPTOR_FOLDER) : NULL;
    if (d) {
        say(" #%d", descriptor_place(d));
        answer(fchdir(d->number));
        return;
    }
    struct path path = path_plain(true);
    if (chance(40)) {
        say(" or /");
        answer(chdir(path_root()));
    } else {
        answer(chdir(path.name));
    }
}

static void act_umask(void)
{
    mode_t mask = (mode_t)PICK_ONE(022, 027, 077, 0, 002);
    say(" %o", mask);
    answer((long)umask(mask));
}

static const struct operation operations[] = {
    {"link", 5, act_link},
    {"link_open", 4, act_link_open},
    {"symlink", 3, act_symlink},
    {"readlink", 1, act_readlink},
    {"rename", 9, act_rename},
    {"rename_plain", 4, act_rename_plain},
    {"unlink", 8, act_unlink},
    {"unlink_plain", 4, act_unlink_plain},
    {"mkdir", 8, act_mkdir},
    {"rmdir", 5, act_rmdir},
    {"fifo", 2, act_fifo},
    {"chmod", 4, act_chmod},
    {"times", 1, act_times},
    {"stat", 2, act_stat},
    {"chdir", 6, act_chdir},
    {"umask", 2, act_umask},
    {NULL, 0, NULL},
};

static void begin(void)
{
    umask(022);
    mkdir(path_root(), 0755);
    if (chdir(path_root()))
        wrong("no working directory");
}

static void observe(void)
{
    mode_t mask = umask(0);
    umask(mask);
    note("umask %o", mask);
    tree_observe_cwd();
    tree_observe(world.base);
}

static void end(void)
{
    if (chdir(world.top) == 0)
        tree_remove(world.base);
}

const struct kind kind_names = {"names", operations, .begin = begin, .observe = observe, .end = end};
