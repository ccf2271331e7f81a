/*
 * What a parcel holds beside the rank's open files: the journal by which a restarted rank puts them back
 * (mpi-layer/lower/held_undo.c). Two files are open, one for reading only. A first part of the input tells
 * how much of the journal is older than the line.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/wire/undo.h"
#include "mpi-layer/lower/held_undo.h"
#include "mpi-layer/lower/vk_held.h"
#include "tests/fuzz/target.h"

#define LENGTH_MAX (1u << 20)

static int open_again(int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* '@' in place of an entry's file stands for one of the two: no input could guess what they are. */
static void name_files(uint8_t *bytes, size_t count, const int *files)
{
    struct vk_held_entry entry;
    for (size_t at = 0; count - at >= sizeof entry; at += sizeof entry + entry.data_bytes) {
        memcpy(&entry, bytes + at, sizeof entry);
        if (entry.magic != VK_HELD_MAGIC || entry.data_bytes > count - at - sizeof entry)
            return;
        if (entry.id.inode <= 1)
            must(file_id_at(files[entry.id.inode], "", &entry.id) == 0);
        entry.offset %= LENGTH_MAX; /* a file of terabytes shows nothing and takes time */
        entry.extent %= LENGTH_MAX;
        memcpy(bytes + at, &entry, sizeof entry);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct belay_error err;
    struct stat st;
    if (count < 2)
        return 0;
    int files[] = {memfd_create("one", MFD_CLOEXEC), memfd_create("two", MFD_CLOEXEC)};
    int journal = memfd_create("journal", MFD_CLOEXEC), reader = open_again(files[1]);
    uint8_t *copy = target_copy(bytes + 2, count - 2);
    size_t from = (size_t)(bytes[0] | bytes[1] << 8);
    must(journal >= 0 && reader >= 0 && write(files[0], "one", 3) == 3 && write(files[1], "two", 3) == 3);
    if (from <= count - 2)
        name_files(copy + from, count - 2 - from, files);
    must(write(journal, copy, count - 2) == (ssize_t)count - 2);
    const int held[] = {journal, files[0], reader};
    if (held_undo(held, 3, from, &err) == 0)
        must(fstat(journal, &st) == 0 && (size_t)st.st_size == (from < count - 2 ? from : count - 2));
    must(fstat(files[0], &st) == 0 && st.st_size < 2 * LENGTH_MAX);
    free(copy);
    const int all[] = {files[0], files[1], journal, reader};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        close(all[i]);
    return 0;
}
