/* restore.c - see restore.h. */
#include "mpi-layer/lower/restore.h"

#include <errno.h>
#include <stdbool.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/image/file_token.h"
#include "mpi-layer/lower/advice.h"
#include "mpi-layer/lower/map.h"
#include "mpi-layer/lower/mapped.h"
#include "mpi-layer/lower/on_demand.h"
#include "mpi-layer/lower/reopen.h"
#include "mpi-layer/lower/shares.h"
#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_image.h"

#define MAP_RUN_BYTES (64ull << 10)
#define MAP_RUNS_MAX 16384u

static uint64_t choose_map_bytes(const struct image_view *view);
static int check_place(const struct image_view *view, struct belay_error *err);
static uint64_t find_stack(const struct image_view *view);

int restore_open(struct restore *restore, int fd, struct belay_error *err)
{
    struct stat st;
    restore->fd = fd;
    if (fstat(fd, &st))
        return belay_error_errno(err, "cannot look at the image");
    if (image_load(fd, &restore->view, err))
        return -1;
    if (check_place(&restore->view, err)) {
        image_unload(&restore->view);
        return -1;
    }
    restore->map_bytes = choose_map_bytes(&restore->view);
    restore->stack = find_stack(&restore->view);
    vk_image_begin(st.st_ino);
    on_demand_begin(fd);
    return 0;
}

void restore_close(struct restore *restore)
{
    image_unload(&restore->view);
}

/* The kernel may have put this process's lower half elsewhere than the one's that was saved. */
static int check_place(const struct image_view *view, struct belay_error *err)
{
    for (uint64_t i = 0; i < view->header->region_count; i++) {
        const struct image_region *region = &view->regions[i];
        if (!layout_is_upper(&GATE->layout, region->start, region->end))
            return belay_error_set(
                err, EADDRINUSE,
                "the program had memory at 0x%lx, where the kernel has put Belay's own half of "
                "this process; try again",
                (unsigned long)region->start);
    }
    return 0;
}

/* Below UPPER_STACK_TOP, region by region: some may be executable, or guards. */
static uint64_t find_stack(const struct image_view *view)
{
    uint64_t start = UPPER_STACK_TOP;
    for (uint64_t i = view->header->region_count; i-- > 0;)
        if (view->regions[i].end == start)
            start = view->regions[i].start;
    return start;
}

/* The virtual kernel's memory, which is needed by what handles the rest. */
static bool is_own(const struct image_region *region)
{
    return region->start >= VK_ADDRESS && region->start < VK_ARENA_END;
}

/* All parts of a stack do, and other memory that the program has mapped so. */
static bool grows_down(const struct restore *restore, const struct image_region *region)
{
    bool is_stack = region->start >= restore->stack && region->end <= UPPER_STACK_TOP;
    return is_stack || (!is_own(region) && advice_is_growing(region->start));
}

/* Known when the virtual kernel's memory is back. */
static int huge_flags_of(const struct image_region *region)
{
    return is_own(region) ? 0 : advice_huge_flags(region->start);
}

/* What is shared is written to: it has to be the file that was mapped. */
static int open_by_identity(const struct image_region *region, const char *path, int flags)
{
    const struct file_id *id = region->kind == IMAGE_REGION_SHARED_FILE ? mapped_identity(path) : NULL;
    if (!id || !id->inode)
        return open(path, flags);
    int found = reopen_find(id, path);
    int fd = found < 0 ? -1 : file_id_reopen(found, flags), code = errno;
    if (found >= 0)
        close(found);
    errno = code;
    return fd;
}

/* By what it contains, if that is known: on another host the same file has other times. */
static bool is_as_captured(const struct image_region *region, int fd, const struct stat *st)
{
    static struct {
        dev_t device;
        ino_t inode;
        uint64_t token;
    } last; /* a library has several regions */
    if ((uint64_t)st->st_size != region->file_bytes)
        return false;
    if (region->file_token == FILE_TOKEN_NONE)
        return st->st_mtim.tv_sec * 1000000000ll + st->st_mtim.tv_nsec == region->file_mtime_ns;
    if (last.token == FILE_TOKEN_NONE || last.inode != st->st_ino || last.device != st->st_dev) {
        uint64_t bytes_read = 0;
        last.device = st->st_dev;
        last.inode = st->st_ino;
        last.token = file_token(fd, region->file_bytes, &bytes_read);
    }
    return last.token == region->file_token;
}

/* The file behind a region, if it is still what it was. Returns a descriptor or -1 with err. */
static int open_region_file(const struct image_region *region, const char *path, struct belay_error *err)
{
    struct stat st;
    bool is_shared = region->kind == IMAGE_REGION_SHARED_FILE; /* and may be made writable later */
    int fd = open_by_identity(region, path, (is_shared ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (fd < 0 && is_shared && !(region->prot & PROT_WRITE))
        fd = open_by_identity(region, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) {
        if (fd < 0 && errno == ESTALE)
            belay_error_set(err, ESTALE,
                            "the program had %s mapped, and another file is there now; move the old one back "
                            "there, or give the job up ('belay clean')",
                            path);
        else
            belay_error_errno(err, "the program had %s mapped, which cannot be opened any more", path);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    if (region->kind == IMAGE_REGION_FILE && !is_as_captured(region, fd, &st)) {
        close(fd);
        return belay_error_set(err, ESTALE,
                               "%s has changed since the line was taken; put the old file back, or "
                               "start the job anew ('belay clean')",
                               path);
    }
    return fd;
}

/* The program had better go on than not at all. */
static void tell_ordinary(const char *why)
{
    static bool is_told;
    if (!is_told)
        vk_say(why, 0, ": it goes on with ordinary pages");
    is_told = true;
}

static const char too_few[] = "there are not as many free huge pages as the program had (nr_hugepages)";

/* MAP_FAILED: there are not as many. */
static void *map_huge(const struct image_region *region, int huge_flags)
{
    void *at = mmap((void *)region->start, region->end - region->start, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | huge_flags, -1, 0);
    if (at == MAP_FAILED)
        tell_ordinary(too_few);
    return at;
}

/* What was not reserved may turn out to be missing when it is filled. */
static int make_ordinary(const struct image_region *region, struct belay_error *err)
{
    tell_ordinary(too_few);
    if (mmap((void *)region->start, region->end - region->start, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED)
        return belay_error_errno(err, "cannot map the saved region at 0x%lx", (unsigned long)region->start);
    return 0;
}

/* Whoever reads what lies behind the end of a file gets SIGBUS: so does it behind that of an empty one. */
static int open_empty(struct belay_error *err)
{
    int fd = memfd_create("belay-behind", MFD_CLOEXEC);
    return fd >= 0 ? fd : belay_error_errno(err, "cannot make an empty file");
}

/* What is mapped in the region: -1, nothing; -2 with err. */
static int region_fd(const struct image_region *region, const char *path, struct belay_error *err)
{
    int fd = -1;
    if (region->kind == IMAGE_REGION_FILE || region->kind == IMAGE_REGION_SHARED_FILE)
        fd = open_region_file(region, path, err);
    else if (region->kind == IMAGE_REGION_SHARED)
        fd = shares_file(SHARE_FILE, region->device, region->inode, err);
    else if (region->kind == IMAGE_REGION_BEHIND)
        fd = open_empty(err);
    else
        return -1;
    return fd < 0 ? -2 : fd;
}

static int map_region(const struct restore *restore, const struct image_region *region,
                      struct belay_error *err)
{
    const char *path = image_string(&restore->view, region->path);
    bool is_file = region->kind == IMAGE_REGION_FILE || region->kind == IMAGE_REGION_SHARED_FILE;
    bool is_shared = region->kind == IMAGE_REGION_SHARED || region->kind == IMAGE_REGION_SHARED_FILE;
    int prot = is_shared && is_file ? (int)region->prot : PROT_READ | PROT_WRITE;
    int flags = (is_shared ? MAP_SHARED : MAP_PRIVATE) | MAP_FIXED_NOREPLACE | MAP_NORESERVE;
    int fd = region_fd(region, path, err);
    if (fd < -1)
        return -1;
    if (fd < 0)
        flags |= MAP_ANONYMOUS;
    if (region->kind == IMAGE_REGION_ANON && grows_down(restore, region))
        flags |= MAP_GROWSDOWN;
    int huge_flags = huge_flags_of(region);
    if (huge_flags && is_file &&
        !(huge_flags & MAP_NORESERVE)) /* rather not at all than with a SIGBUS later */
        flags &= ~MAP_NORESERVE;
    if (huge_flags && is_shared && !is_file)
        tell_ordinary("the program had shared memory of huge pages");
    bool is_huge = huge_flags && region->kind == IMAGE_REGION_ANON;
    void *at = is_huge ? map_huge(region, huge_flags) : MAP_FAILED;
    if (at == MAP_FAILED)
        at = mmap((void *)region->start, region->end - region->start, prot, flags, fd,
                  fd >= 0 ? (off_t)region->file_offset : 0);
    if (is_file || region->kind == IMAGE_REGION_BEHIND)
        close(fd);
    if (at == MAP_FAILED)
        return belay_error_errno(err, "cannot map the saved region at 0x%lx", (unsigned long)region->start);
    return 0;
}

/* Where the segment was attached that a region is a part of: shmdt() goes by it. */
static uint64_t attached_at(const struct image_region *region)
{
    return region->start - region->file_offset;
}

static bool is_of_one_segment(const struct image_region *one, const struct image_region *other)
{
    return other->kind == IMAGE_REGION_SEGMENT && one->inode == other->inode &&
           attached_at(one) == attached_at(other);
}

/* Attached once, and its parts moved to where they were: their protections differ, or some are gone. */
static int map_segment(const struct restore *restore, uint64_t index, struct belay_error *err)
{
    const struct image_region *first = &restore->view.regions[index];
    uint64_t count = restore->view.header->region_count;
    struct shmid_ds segment;
    for (uint64_t i = index; i > 0 && restore->view.regions[i - 1].start >= attached_at(first); i--)
        if (is_of_one_segment(first, &restore->view.regions[i - 1]))
            return 0; /* with that */
    int id = shares_segment(first->inode, err);
    if (id < 0)
        return -1;
    char *at = shmat(id, NULL, 0);
    if (at == (char *)-1)
        at = shmat(id, NULL, SHM_RDONLY);
    if (at == (char *)-1 || shmctl(id, IPC_STAT, &segment))
        return belay_error_errno(err, "cannot attach the System V segment %d again", id);
    for (uint64_t i = index; i < count; i++) {
        const struct image_region *part = &restore->view.regions[i];
        if (!is_of_one_segment(first, part))
            continue;
        size_t bytes = part->end - part->start;
        if (mremap(at + part->file_offset, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
                   (void *)part->start) == MAP_FAILED)
            return belay_error_errno(err, "cannot map the saved region at 0x%lx", (unsigned long)part->start);
    }
    munmap(at, segment.shm_segsz); /* what is left there */
    return 0;
}

/*
 * Runs from this size on are mapped, smaller ones are copied. It grows until the mappings are few enough (the
 * kernel allows a process some 65,000 in all).
 */
static uint64_t choose_map_bytes(const struct image_view *view)
{
    uint64_t least = MAP_RUN_BYTES, count;
    for (;; least *= 2) {
        count = 0;
        for (uint64_t i = 0; i < view->header->run_count; i++)
            count += view->runs[i].bytes >= least;
        if (count <= MAP_RUNS_MAX)
            return least;
    }
}

static bool may_be_mapped(const struct restore *restore, const struct image_region *region,
                          const struct image_run *run)
{
    return region->kind == IMAGE_REGION_ANON && !grows_down(restore, region) && !is_own(region) &&
           !huge_flags_of(region) && run->bytes >= restore->map_bytes;
}

static int map_run(const struct restore *restore, const struct image_run *run, struct belay_error *err)
{
    void *at = mmap((void *)run->address, run->bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, restore->fd, (off_t)run->data_offset);
    if (at == MAP_FAILED)
        return belay_error_errno(err, "cannot map the image at 0x%lx", (unsigned long)run->address);
    vk_image_add(run->address, run->address + run->bytes);
    return on_demand_mapped(run, err);
}

static int copy_run(const struct restore *restore, const struct image_run *run, struct belay_error *err)
{
    on_demand_await(run);
    for (uint64_t done = 0; done < run->bytes;) {
        ssize_t got = pread(restore->fd, (char *)run->address + done, run->bytes - done,
                            (off_t)(run->data_offset + done));
        if (got <= 0)
            return belay_error_errno(err, "cannot read the image");
        done += (uint64_t)got;
    }
    return 0;
}

static int fill_region(const struct restore *restore, const struct image_region *region,
                       struct belay_error *err)
{
    const struct image_run *runs = restore->view.runs;
    struct run_set all = {.runs = (struct image_run *)(uintptr_t)runs,
                          .count = restore->view.header->run_count};
    for (size_t i = runs_find(&all, region->start); i < all.count && runs[i].address < region->end; i++) {
        bool is_mapped = may_be_mapped(restore, region, &runs[i]);
        if (is_mapped ? map_run(restore, &runs[i], err) : copy_run(restore, &runs[i], err))
            return -1;
    }
    return 0;
}

static int restore_region(const struct restore *restore, uint64_t index, struct belay_error *err)
{
    const struct image_region *region = &restore->view.regions[index];
    if (region->kind == IMAGE_REGION_SEGMENT ? map_segment(restore, index, err)
                                             : map_region(restore, region, err))
        return -1;
    int result = fill_region(restore, region, err);
    if (result && errno == EFAULT && region->kind == IMAGE_REGION_ANON && huge_flags_of(region))
        result = make_ordinary(region, err) ? -1 : fill_region(restore, region, err);
    if (result)
        return -1;
    if (region->kind != IMAGE_REGION_SHARED_FILE && region->prot != (PROT_READ | PROT_WRITE) &&
        mprotect((void *)region->start, region->end - region->start, (int)region->prot))
        return belay_error_errno(err, "cannot protect the saved region at 0x%lx",
                                 (unsigned long)region->start);
    return 0;
}

int restore_regions(struct restore *restore, uint64_t from, uint64_t to, struct belay_error *err)
{
    for (uint64_t i = 0; i < restore->view.header->region_count; i++) {
        const struct image_region *region = &restore->view.regions[i];
        if (region->start >= from && region->start < to && restore_region(restore, i, err))
            return -1;
    }
    return 0;
}
