/* seeds_archive.c - the corpus's first files of lines that were written to files (common/archive). */
#include "tests/fuzz/seeds.h"

#include <fcntl.h>
#include <unistd.h>

#include "common/archive/manifest.h"
#include "common/archive/part.h"
#include "common/image/image.h"
#include "common/image/layout.h"
#include "tests/fuzz/target.h"

#define PAGE IMAGE_PAGE_BYTES
#define FILE_ROOM 65536u

/* A file that was written into a folder goes to the corpus. */
static void put_archived(int folder, const char *name, const char *seed, int first)
{
    uint8_t bytes[FILE_ROOM];
    uint64_t count;
    struct belay_error err;
    int fd = archive_open_file(folder, name, sizeof bytes, &count, &err);
    must(fd >= 0 && read(fd, bytes, count) == (ssize_t)count);
    close(fd);
    seeds_put("archive", seed, first, bytes, count);
    must(unlinkat(folder, name, 0) == 0);
}

static void put_archive_part(int folder)
{
    struct image_run run = {UPPER_BASE, PAGE, image_offset(UPPER_BASE)};
    const struct run_set runs = {.runs = &run, .count = 1};
    const struct image_pages pages = {.runs = &runs};
    const struct image_region heap = {
        .start = UPPER_BASE, .end = UPPER_BASE + PAGE, .kind = IMAGE_REGION_ANON};
    const struct image_header header = {.line = 7, .rank = 0, .ranks = 2};
    const struct archive_part_head head = {.magic = ARCHIVE_PART_MAGIC,
                                           .version = ARCHIVE_PART_VERSION,
                                           .image_version = IMAGE_VERSION,
                                           .line = 7,
                                           .ranks = 2};
    struct image_writer *writer = image_writer_create();
    const uint8_t content[PAGE] = {1, 2, 3};
    bool is_stopped = false;
    uint64_t bytes;
    struct belay_error err;
    int fd = image_make_memfd(&err);
    must(fd >= 0 && image_writer_add_region(writer, &heap, NULL) == 0 &&
         image_write_pages(fd, UPPER_BASE, content, sizeof content, &err) == 0 &&
         image_writer_finish(writer, &pages, &header, fd, PAGE, &err) == 0 &&
         archive_part_write(folder, &head, fd, &is_stopped, &bytes, &err) == 0);
    image_writer_destroy(writer);
    close(fd);
    put_archived(folder, "rank-0", "part", 1);
}

static void put_archive_manifest(int folder)
{
    Belay__Wire__ArchiveManifest manifest = BELAY__WIRE__ARCHIVE_MANIFEST__INIT;
    Belay__Wire__JobOpen job = BELAY__WIRE__JOB_OPEN__INIT;
    Belay__Wire__JobSettings settings = BELAY__WIRE__JOB_SETTINGS__INIT;
    Belay__Wire__ArchivePart part = BELAY__WIRE__ARCHIVE_PART__INIT, *parts[] = {&part};
    uint64_t streams[ARCHIVE_STREAM_NUMBERS] = {5, 6, 7, 8}, processors[] = {77};
    uint32_t nodes[] = {0};
    uint8_t root[DIGEST_BYTES] = {1};
    char name[] = "job";
    struct belay_error err;
    job.job = name;
    job.settings = &settings;
    part.bytes = 4096;
    part.root = (ProtobufCBinaryData){.data = root, .len = sizeof root};
    part.streams = streams;
    part.n_streams = ARCHIVE_STREAM_NUMBERS;
    manifest.job = &job;
    manifest.line = manifest.last_line = 7;
    manifest.ranks = manifest.epoch = 1;
    manifest.parts = parts;
    manifest.nodes = nodes;
    manifest.processors = processors;
    manifest.n_parts = manifest.n_nodes = manifest.n_processors = 1;
    must(archive_manifest_write(folder, &manifest, &err) == 0);
    put_archived(folder, ARCHIVE_MANIFEST, "manifest", 0);
}

void seeds_put_archive(void)
{
    char name[] = "/tmp/belay-seeds-XXXXXX";
    must(mkdtemp(name));
    int folder = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(folder >= 0);
    put_archive_part(folder);
    put_archive_manifest(folder);
    close(folder);
    must(rmdir(name) == 0);
}
