/*
 * views.c - files that are mapped. A page that the file no longer has cannot be read; nobody asks it
 * directly.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/histories/files/descriptors.h"
#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/core/world.h"

#define VIEWS 10
#define VIEW_PAGES 16
#define CONSTANT_PAGES 12

static struct view {
    char *at; /* NULL: none */
    int pages;
    bool is_shared, is_writable;
} views[VIEWS];

static struct view *choose(void)
{
    struct view *v = &views[pick(VIEWS)];
    say(" %d", (int)(v - views));
    return v->at ? v : NULL;
}

static void drop(struct view *v)
{
    if (v->at)
        munmap(v->at, (size_t)v->pages * PAGE);
    v->at = NULL;
}

static struct view *renew(void)
{
    struct view *v = &views[pick(VIEWS)];
    say(" %d", (int)(v - views));
    drop(v);
    return v;
}

static void map(struct view *v, int fd, int protection, int flags, long page)
{
    v->pages = 1 + (int)pick(VIEW_PAGES);
    say(" %d pages from %ld, %x %x", v->pages, page, (unsigned)protection, (unsigned)flags);
    char *at = mmap(NULL, (size_t)v->pages * PAGE, protection, flags, fd, page * (long)PAGE);
    answer(at == MAP_FAILED ? -1 : 0);
    v->at = at == MAP_FAILED ? NULL : at;
    v->is_shared = flags & MAP_SHARED;
    v->is_writable = protection & PROT_WRITE;
}

/* Has this file the name that it was opened by? Its mappings fare otherwise if not. */
static bool has_name(const struct descriptor *d)
{
    descriptors_note_names();
    return !d->has_lost_name;
}

static void map_descriptor(int flags, bool is_named)
{
    int protection = PROT_READ | (chance(60) ? PROT_WRITE : 0);
    long page = (long)pick(4);
    struct view *v = renew();
    struct descriptor *d = descriptor_choose(DESCRIPTOR_FILE);
    if (flags == MAP_SHARED && page % 2)
        flags = MAP_SHARED_VALIDATE;
    if (d && has_name(d) == is_named)
        map(v, d->number, protection, flags, page);
}

static void act_shared(void)
{
    map_descriptor(MAP_SHARED, true);
}

static void act_shared_nameless(void)
{
    map_descriptor(MAP_SHARED, false);
}

/* Others write to the file as well: pages that have not been written to here show it. */
static void act_private(void)
{
    map_descriptor(MAP_PRIVATE, true);
}

static void act_private_nameless(void)
{
    map_descriptor(MAP_PRIVATE, false);
}

/* Of a file that nobody changes. */
static void act_constant(void)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.*s/constant", PATH_MAX - 16, world.base);
    struct view *v = renew();
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    map(v, fd, PROT_READ | (chance(60) ? PROT_WRITE : 0), MAP_PRIVATE, (long)pick(4));
    close(fd);
}

static void act_memfd(void)
{
    struct view *v = renew();
    bool is_closed = chance(50);
    int fd = memfd_create("history", MFD_CLOEXEC | (chance(50) ? MFD_ALLOW_SEALING : 0));
    answer(fd < 0 ? -1 : 0);
    answer(ftruncate(fd, (off_t)(pick(VIEW_PAGES) * PAGE)));
    map(v, fd, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
    if (is_closed)
        close(fd);
    else
        descriptor_keep(fd, DESCRIPTOR_FILE);
}

/* What a memfd no longer allows, for good; others have no seals. */
static void act_seal(void)
{
    int seal = (int)PICK_ONE(F_SEAL_GROW, F_SEAL_GROW, F_SEAL_SHRINK, F_SEAL_WRITE, F_SEAL_SEAL);
    struct descriptor *d = descriptor_choose(DESCRIPTOR_FILE);
    say(" %x", (unsigned)seal);
    if (d)
        answer(fcntl(d->number, F_ADD_SEALS, seal));
}

/* Does the file still have the page? Asked of the kernel, since a look would be a signal. */
static bool has_page(const struct view *v, int page, char *content)
{
    struct iovec mine = {content, PAGE}, there = {v->at + (size_t)page * PAGE, PAGE};
    return process_vm_readv(getpid(), &mine, 1, &there, 1, 0) == (ssize_t)PAGE;
}

static void act_write(void)
{
    char content[PAGE];
    struct view *v = choose();
    size_t from = pick(PAGE), bytes = 1 + pick(PAGE - from);
    if (!v || !v->is_writable)
        return;
    int page = (int)pick((size_t)v->pages);
    say(" page %d, %zu@%zu", page, bytes, from);
    if (has_page(v, page, content))
        memcpy(v->at + (size_t)page * PAGE + from, some_bytes(bytes), bytes);
}

static void act_sync(void)
{
    struct view *v = choose();
    if (v)
        answer(msync(v->at, (size_t)v->pages * PAGE,
                     (int)PICK_ONE(MS_SYNC, MS_ASYNC, MS_ASYNC | MS_INVALIDATE)));
}

static void act_protect(void)
{
    struct view *v = choose();
    bool is_writable = chance(60);
    if (v &&
        answer(mprotect(v->at, (size_t)v->pages * PAGE, PROT_READ | (is_writable ? PROT_WRITE : 0))) == 0)
        v->is_writable = is_writable;
}

/* A private mapping is the file's again. */
static void act_forget(void)
{
    struct view *v = choose();
    if (v)
        answer(madvise(v->at, (size_t)v->pages * PAGE, MADV_DONTNEED));
}

static void act_resize(void)
{
    struct view *v = choose();
    int pages = 1 + (int)pick(VIEW_PAGES);
    if (!v)
        return;
    char *at = mremap(v->at, (size_t)v->pages * PAGE, (size_t)pages * PAGE, MREMAP_MAYMOVE);
    say(" %d", pages);
    if (answer(at == MAP_FAILED ? -1 : 0) == 0) {
        v->at = at;
        v->pages = pages;
    }
}

static void act_unmap(void)
{
    struct view *v = choose();
    if (v)
        drop(v);
}

static const struct operation operations[] = {
    {"shared", 5, act_shared},     {"shared_nameless", 2, act_shared_nameless},
    {"private", 3, act_private},   {"private_nameless", 1, act_private_nameless},
    {"constant", 3, act_constant}, {"memfd", 2, act_memfd},
    {"seal", 2, act_seal},         {"write", 10, act_write},
    {"sync", 2, act_sync},         {"protect", 2, act_protect},
    {"forget", 2, act_forget},     {"resize", 2, act_resize},
    {"unmap", 2, act_unmap},       {NULL, 0, NULL},
};

static void begin(void)
{
    char path[PATH_MAX], content[CONSTANT_PAGES * PAGE];
    snprintf(path, sizeof path, "%.*s/constant", PATH_MAX - 16, world.base);
    fill(content, sizeof content, world.seed);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (write(fd, content, sizeof content) != sizeof content)
        wrong("no constant file");
    close(fd);
}

static void observe_seals(void)
{
    for (int i = 0; i < DESCRIPTORS; i++)
        if (descriptor_at(i)->kind == DESCRIPTOR_FILE && fcntl(descriptor_at(i)->number, F_GET_SEALS) >= 0)
            note("#%d seals %d", i, fcntl(descriptor_at(i)->number, F_GET_SEALS));
}

static void observe(void)
{
    char content[PAGE];
    observe_seals();
    for (int i = 0; i < VIEWS; i++)
        for (int page = 0; views[i].at && page < views[i].pages; page++)
            if (has_page(&views[i], page, content)) {
                note_bytes("page", content, PAGE);
                if (memcmp(content, views[i].at + (size_t)page * PAGE, PAGE))
                    wrong("view %d, page %d is not what the kernel reads", i, page);
            } else {
                note("view %d, page %d: %s", i, page, error_name(errno));
            }
}

const struct kind kind_views = {"views", operations, .begin = begin, .observe = observe};
