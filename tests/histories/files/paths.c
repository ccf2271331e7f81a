#include "tests/histories/files/paths.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "tests/histories/files/descriptors.h"
#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/world.h"

static const char *const files[] = {"f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7"};
static const char *const folders[] = {"d0", "d1", "d2"};

#define COUNT(list) (sizeof(list) / sizeof *(list))

const char *path_root(void)
{
    static char root[PATH_MAX];
    snprintf(root, sizeof root, "%.*s/root", PATH_MAX - 16, world.base);
    return root;
}

const char *path_leaf(bool is_folder)
{
    return is_folder ? folders[pick(COUNT(folders))] : files[pick(COUNT(files))];
}

/* LEAF, FOLDER/LEAF, ../LEAF. */
static void relative(char *name, size_t size, bool is_folder, bool may_go_up)
{
    size_t way = pick(6);
    const char *folder = folders[pick(COUNT(folders))];
    if (way == 0 && may_go_up)
        snprintf(name, size, "../%s", path_leaf(is_folder));
    else if (way <= 2)
        snprintf(name, size, "%s/%s", folder, path_leaf(is_folder));
    else
        snprintf(name, size, "%s%s", way == 3 ? "./" : "", path_leaf(is_folder));
}

static struct path absolute(bool is_folder)
{
    struct path path = {.folder = AT_FDCWD};
    char name[64];
    relative(name, sizeof name, is_folder, false);
    say(" /%s", name);
    snprintf(path.name, sizeof path.name, "%.*s/%s", PATH_MAX - 80, path_root(), name);
    return path;
}

struct path path_plain(bool is_folder)
{
    struct path path = {.folder = AT_FDCWD};
    if (chance(60))
        return absolute(is_folder);
    relative(path.name, sizeof path.name, is_folder, true);
    say(" %s", path.name);
    return path;
}

static struct path any(bool is_folder)
{
    struct descriptor *folder = chance(35) ? descriptor_pick(DESCRIPTOR_FOLDER) : NULL;
    if (!folder)
        return path_plain(is_folder);
    struct path path = {.folder = folder->number};
    relative(path.name, sizeof path.name, is_folder, true);
    say(" #%d:%s", descriptor_place(folder), path.name);
    return path;
}

struct path path_of_file(void)
{
    return any(chance(3));
}

struct path path_of_folder(void)
{
    return any(!chance(3));
}
