/*
 * locks.c - locks of files. A restart drops them, so nobody relies on having one: what is asked is whether
 * they can be taken.
 */
#include <fcntl.h>
#include <sys/file.h>

#include "tests/histories/files/descriptors.h"
#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"

static struct flock some_range(short type)
{
    return (struct flock){
        .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)pick(1000), .l_len = (off_t)pick(1000)};
}

static void act_flock(void)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_FILE);
    if (!d)
        return;
    answer(flock(d->number, (chance(50) ? LOCK_EX : LOCK_SH) | LOCK_NB));
    answer(flock(d->number, LOCK_UN));
}

static bool can_write(const struct descriptor *d)
{
    return (fcntl(d->number, F_GETFL) & O_ACCMODE) == O_RDWR;
}

static void lock_range(int set)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_FILE);
    struct flock lock = some_range(chance(50) ? F_WRLCK : F_RDLCK);
    if (!d || !can_write(d))
        return;
    answer(fcntl(d->number, set, &lock));
    lock.l_type = F_UNLCK;
    answer(fcntl(d->number, set, &lock));
}

static void act_posix(void)
{
    lock_range(F_SETLK);
}

static void act_description(void)
{
    lock_range(F_OFD_SETLK);
}

/* Kept, and asked for by another open file description. */
static void act_held(void)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_FILE);
    if (d)
        answer(flock(d->number, (int)PICK_ONE(LOCK_EX | LOCK_NB, LOCK_SH | LOCK_NB, LOCK_UN)));
}

static const struct operation operations[] = {
    {"flock", 2, act_flock}, {"posix", 2, act_posix}, {"description", 2, act_description},
    {"held", 2, act_held},   {NULL, 0, NULL},
};

const struct kind kind_locks = {.name = "locks", .operations = operations};
