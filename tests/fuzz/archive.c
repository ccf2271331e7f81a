/* What is in the folder of an archived line: the manifest, or the file of a part. The first byte chooses. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/archive/manifest.h"
#include "common/archive/part.h"
#include "common/image/image.h"
#include "tests/fuzz/target.h"

static char folder_name[] = "/tmp/belay-fuzz-XXXXXX";
static int folder = -1;

static void remove_folder(void)
{
    unlinkat(folder, "rank-0", 0);
    rmdir(folder_name);
}

static void make_folder(void)
{
    if (folder >= 0)
        return;
    must(mkdtemp(folder_name));
    folder = open(folder_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(folder >= 0);
    atexit(remove_folder);
}

static void take_manifest(const uint8_t *bytes, size_t count)
{
    struct belay_error err;
    Belay__Wire__ArchiveManifest *manifest = archive_manifest_unpack(bytes, count, &err);
    if (!manifest)
        return;
    must(manifest->n_parts >= manifest->ranks && manifest->n_nodes == manifest->ranks);
    for (uint32_t rank = 0; rank < manifest->ranks; rank++)
        must(manifest->parts[rank]->part == rank);
    for (size_t i = 0; i < manifest->n_parts; i++) {
        const struct digest root = archive_part_root(manifest->parts[i]);
        must(manifest->parts[i]->root.len == sizeof root);
    }
    archive_manifest_free(manifest);
}

static void take_part(const uint8_t *bytes, size_t count)
{
    const struct archive_part_head expected = {.line = 7, .part = 0, .ranks = 2};
    struct belay_error err;
    struct image_view view;
    make_folder();
    int file = openat(folder, "rank-0", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(file >= 0 && write(file, bytes, count) == (ssize_t)count);
    close(file);
    int memfd = image_make_memfd(&err);
    must(memfd >= 0);
    if (archive_part_read(folder, &expected, count, memfd, &err) == 0 && image_load(memfd, &view, &err) == 0)
        image_unload(&view);
    close(memfd);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    if (count == 0)
        return 0;
    uint8_t *copy = target_copy(bytes + 1, count - 1);
    if (bytes[0] % 2 == 0)
        take_manifest(copy, count - 1);
    else
        take_part(copy, count - 1);
    free(copy);
    return 0;
}
