/* archive_test.c - what is archived comes back as it was, or not at all. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/archive/manifest.h"
#include "common/archive/pace.h"
#include "common/archive/part.h"
#include "common/image/image.h"
#include "common/image/layout.h"
#include "common/image/sums.h"
#include "common/util/tree.h"

#define PAGE IMAGE_PAGE_BYTES
#define LINE 7u
#define RANK 1u
#define RANKS 2u

static char base[PATH_MAX];

static int setup(void **state)
{
    char name[] = "/tmp/belay-archive-XXXXXX";
    (void)state;
    return mkdtemp(name) && realpath(name, base) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    tree_remove(base);
    return 0;
}

/* ---- which lines ---- */

static void test_each_third_line(void **state)
{
    struct archive_pace pace;
    struct archive_clock clock = {0};
    struct belay_error err;
    (void)state;
    assert_int_equal(archive_pace_parse("3", &pace, &err), 0);
    for (int line = 1; line <= 9; line++)
        assert_int_equal(archive_is_due(&pace, &clock, 0), line % 3 == 0);
}

static void test_the_first_line_of_each_time(void **state)
{
    struct archive_pace pace;
    struct archive_clock clock = {0};
    struct belay_error err;
    (void)state;
    assert_int_equal(archive_pace_parse("10s", &pace, &err), 0);
    assert_true(archive_is_due(&pace, &clock, 500));
    assert_false(archive_is_due(&pace, &clock, 10499));
    assert_true(archive_is_due(&pace, &clock, 10500));
    assert_false(archive_is_due(&pace, &clock, 20499));
    assert_int_equal(archive_pace_parse("", &pace, &err), 0);
    assert_int_equal(pace.ms, 600000);
}

static void test_a_wrong_pace(void **state)
{
    static const char *const wrong[] = {"0", "often", "-1", "99999999999999999999", "3.5"};
    struct archive_pace pace;
    struct belay_error err;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(archive_pace_parse(wrong[i], &pace, &err), -1);
        assert_non_null(strstr(err.text, "--archive-every"));
    }
}

/* ---- folders ---- */

static int open_line(uint64_t line, bool makes, struct belay_error *err)
{
    int of_job = archive_open_job(base, "job", makes, err);
    int folder = of_job < 0 ? -1 : archive_open_line(of_job, line, makes, err);
    if (of_job >= 0)
        close(of_job);
    return folder;
}

static void test_only_its_own_folders(void **state)
{
    char path[PATH_MAX + 64], other[PATH_MAX + 64];
    struct belay_error err;
    (void)state;
    int folder = open_line(LINE, true, &err);
    assert_true(folder >= 0);
    close(folder);
    snprintf(path, sizeof path, "%s/job/line-7", base);
    assert_int_equal(chmod(path, 0770), 0);
    assert_int_equal(open_line(LINE, false, &err), -1);
    assert_non_null(strstr(err.text, "others may write to it"));
    assert_int_equal(chmod(path, 0700), 0);
    snprintf(other, sizeof other, "%s/other", base);
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(symlink(other, path), 0);
    assert_int_equal(open_line(LINE, false, &err), -1);
    assert_true(err.code == ELOOP || err.code == ENOTDIR);
    if (geteuid() == 0) {
        unlink(path);
        assert_int_equal(rename(other, path), 0);
        assert_int_equal(chown(path, 65534, 65534), 0);
        assert_int_equal(open_line(LINE, false, &err), -1);
        assert_non_null(strstr(err.text, "another user"));
    }
}

static void test_a_line_without_its_last_file(void **state)
{
    struct belay_error err;
    size_t count;
    (void)state;
    for (uint64_t line = 9; line <= 11; line++)
        close(open_line(line, true, &err));
    int of_job = archive_open_job(base, "job", false, &err), folder = open_line(10, false, &err);
    int fd = archive_begin_file(folder, ARCHIVE_MANIFEST, &err);
    assert_false(archive_is_complete(of_job, 10));
    assert_int_equal(archive_end_file(folder, ARCHIVE_MANIFEST, fd, &err), 0);
    assert_true(archive_is_complete(of_job, 10));
    uint64_t *lines = archive_list_lines(of_job, &count);
    assert_int_equal(count, 3);
    assert_true(lines[0] == 9 && lines[1] == 10 && lines[2] == 11);
    free(lines);
    archive_remove_line(of_job, 10);
    assert_false(archive_is_complete(of_job, 10));
    close(folder);
    close(of_job);
    archive_remove_job(base, "job");
    assert_int_equal(archive_open_job(base, "job", false, &err), -1);
    assert_int_equal(err.code, ENOENT);
}

static void test_names_of_lines(void **state)
{
    (void)state;
    assert_int_equal(archive_line_of("line-12"), 12);
    assert_int_equal(archive_line_of("line-012"), 0);
    assert_int_equal(archive_line_of("line-12x"), 0);
    assert_int_equal(archive_line_of("line-0"), 0);
    assert_int_equal(archive_line_of("manifest"), 0);
}

/* ---- parts ---- */

static int make_image(void)
{
    struct image_run run = {UPPER_BASE + 5 * PAGE, 3 * PAGE, image_offset(UPPER_BASE + 5 * PAGE)};
    const struct run_set runs = {.runs = &run, .count = 1};
    const struct image_pages pages = {.runs = &runs};
    const struct image_region heap = {
        .start = UPPER_BASE, .end = UPPER_BASE + 32 * PAGE, .kind = IMAGE_REGION_ANON};
    const struct image_header header = {.line = LINE, .rank = RANK, .ranks = RANKS};
    struct image_writer *writer = image_writer_create();
    struct belay_error err;
    char content[3 * PAGE];
    for (size_t i = 0; i < sizeof content; i++)
        content[i] = (char)(i * 31 + i / PAGE);
    int fd = image_make_memfd(&err);
    assert_true(fd >= 0);
    assert_int_equal(image_writer_add_region(writer, &heap, NULL), 0);
    assert_int_equal(image_write_pages(fd, run.address, content, sizeof content, &err), 0);
    assert_int_equal(image_writer_finish(writer, &pages, &header, fd, PAGE, &err), 0);
    image_writer_destroy(writer);
    return fd;
}

static const struct archive_part_head head = {.magic = ARCHIVE_PART_MAGIC,
                                              .version = ARCHIVE_PART_VERSION,
                                              .image_version = IMAGE_VERSION,
                                              .line = LINE,
                                              .part = RANK,
                                              .ranks = RANKS};

static uint64_t write_part(int folder)
{
    struct belay_error err = {0};
    bool is_stopped = false;
    uint64_t bytes = 0;
    int image = make_image();
    assert_int_equal(archive_part_write(folder, &head, image, &is_stopped, &bytes, &err), 0);
    close(image);
    return bytes;
}

/* Reads and checks it as a restart does. */
static int read_part(int folder, uint64_t bytes, struct belay_error *err)
{
    struct image_view view = {0};
    int memfd = image_make_memfd(err);
    int rc = archive_part_read(folder, &head, bytes, memfd, err);
    if (rc == 0)
        rc = image_load(memfd, &view, err);
    if (rc == 0)
        rc = sums_check(memfd, &view, NULL, err);
    image_unload(&view);
    close(memfd);
    return rc;
}

static void test_a_part_comes_back(void **state)
{
    struct belay_error err = {0};
    struct stat st;
    (void)state;
    int folder = open_line(LINE, true, &err);
    uint64_t bytes = write_part(folder);
    assert_int_equal(fstatat(folder, "rank-1", &st, 0), 0);
    assert_int_equal(st.st_size, bytes);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(read_part(folder, bytes, &err), 0);
    assert_int_equal(read_part(folder, bytes - 1, &err), -1);
    close(folder);
}

static void test_a_stopped_part_leaves_nothing(void **state)
{
    struct belay_error err = {0};
    bool is_stopped = true;
    uint64_t bytes;
    struct stat st;
    (void)state;
    int folder = open_line(LINE, true, &err), image = make_image();
    assert_int_equal(archive_part_write(folder, &head, image, &is_stopped, &bytes, &err), -1);
    assert_int_equal(err.code, ECANCELED);
    assert_int_equal(fstatat(folder, "rank-1", &st, 0), -1);
    assert_int_equal(fstatat(folder, "rank-1.partial", &st, 0), -1);
    close(image);
    close(folder);
}

/* Any byte: the file's own head and ranges, header, tables, pages, sums. */
static void test_a_damaged_part_is_refused(void **state)
{
    struct belay_error err = {0};
    (void)state;
    int folder = open_line(LINE, true, &err);
    uint64_t bytes = write_part(folder);
    int fd = openat(folder, "rank-1", O_RDWR | O_CLOEXEC);
    for (uint64_t at = 0; at < bytes; at += at < 700 ? 1 : 61) {
        uint8_t byte, other;
        assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
        other = byte ^ 0x40;
        assert_int_equal(pwrite(fd, &other, 1, (off_t)at), 1);
        assert_int_equal(read_part(folder, bytes, &err), -1);
        assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    }
    assert_int_equal(read_part(folder, bytes, &err), 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes - 1), 0);
    assert_int_equal(read_part(folder, bytes, &err), -1);
    close(fd);
    close(folder);
}

/* ---- the manifest ---- */

static uint64_t streams[ARCHIVE_STREAM_NUMBERS] = {1, 2, 3, 4, 5, 6, 7, 8};
static uint8_t root[DIGEST_BYTES] = {9};
static uint32_t nodes[RANKS] = {0, 1};
static uint64_t processors[RANKS] = {5, 5};
static Belay__Wire__ArchivePart parts[RANKS + 1];
static Belay__Wire__ArchivePart *part_list[RANKS + 1];
static Belay__Wire__JobOpen job;
static Belay__Wire__JobSettings settings;

static Belay__Wire__ArchiveManifest sound_manifest(void)
{
    Belay__Wire__ArchiveManifest manifest = BELAY__WIRE__ARCHIVE_MANIFEST__INIT;
    belay__wire__job_open__init(&job);
    belay__wire__job_settings__init(&settings);
    job.job = (char *)(uintptr_t) "job";
    job.settings = &settings;
    job.node_count = 2;
    for (uint32_t i = 0; i <= RANKS; i++) {
        belay__wire__archive_part__init(&parts[i]);
        parts[i].part = i;
        parts[i].bytes = 4096;
        parts[i].root = (ProtobufCBinaryData){.data = root, .len = sizeof root};
        parts[i].streams = streams;
        parts[i].n_streams = i < RANKS ? ARCHIVE_STREAM_NUMBERS : 0;
        part_list[i] = &parts[i];
    }
    manifest.job = &job;
    manifest.line = LINE;
    manifest.last_line = LINE + 1;
    manifest.ranks = RANKS;
    manifest.epoch = 3;
    manifest.parts = part_list;
    manifest.n_parts = RANKS + 1;
    manifest.nodes = nodes;
    manifest.n_nodes = RANKS;
    manifest.processors = processors;
    manifest.n_processors = RANKS;
    return manifest;
}

static void test_a_manifest_comes_back(void **state)
{
    struct belay_error err = {0};
    (void)state;
    const Belay__Wire__ArchiveManifest manifest = sound_manifest();
    int folder = open_line(LINE, true, &err);
    assert_int_equal(archive_manifest_write(folder, &manifest, &err), 0);
    Belay__Wire__ArchiveManifest *again = archive_manifest_read(folder, &err);
    assert_non_null(again);
    assert_string_equal(again->job->job, "job");
    assert_int_equal(again->line, LINE);
    assert_int_equal(again->n_parts, RANKS + 1);
    assert_memory_equal(again->parts[1]->streams, streams, sizeof streams);
    archive_manifest_free(again);
    assert_int_equal(unlinkat(folder, ARCHIVE_MANIFEST, 0), 0);
    assert_null(archive_manifest_read(folder, &err));
    assert_int_equal(err.code, ENOENT);
    close(folder);
}

/* Each of these would be believed otherwise. */
static void test_a_manifest_that_makes_no_sense(void **state)
{
    struct belay_error err;
    Belay__Wire__ArchiveManifest manifest = sound_manifest();
    (void)state;
    assert_int_equal(archive_manifest_check(&manifest, &err), 0);
    manifest.ranks = RANKS + 1;
    assert_int_equal(archive_manifest_check(&manifest, &err), -1);
    manifest = sound_manifest();
    manifest.last_line = LINE - 1;
    assert_int_equal(archive_manifest_check(&manifest, &err), -1);
    manifest = sound_manifest();
    manifest.n_nodes = 1;
    assert_int_equal(archive_manifest_check(&manifest, &err), -1);
    manifest = sound_manifest();
    parts[2].part = 2 * RANKS;
    assert_int_equal(archive_manifest_check(&manifest, &err), -1);
    manifest = sound_manifest();
    parts[1].part = 0;
    assert_int_equal(archive_manifest_check(&manifest, &err), -1);
    manifest = sound_manifest();
    parts[0].n_streams = 7;
    assert_int_equal(archive_manifest_check(&manifest, &err), -1);
    manifest = sound_manifest();
    job.job = (char *)(uintptr_t) "../job";
    assert_int_equal(archive_manifest_check(&manifest, &err), -1);
    manifest = sound_manifest();
    manifest.job = NULL;
    assert_int_equal(archive_manifest_check(&manifest, &err), -1);
}

static void test_a_damaged_manifest_is_refused(void **state)
{
    struct belay_error err = {0};
    uint8_t bytes[4096];
    (void)state;
    const Belay__Wire__ArchiveManifest manifest = sound_manifest();
    int folder = open_line(LINE, true, &err);
    assert_int_equal(archive_manifest_write(folder, &manifest, &err), 0);
    int fd = openat(folder, ARCHIVE_MANIFEST, O_RDONLY | O_CLOEXEC);
    ssize_t count = read(fd, bytes, sizeof bytes);
    assert_true(count > 0 && count < (ssize_t)sizeof bytes);
    for (ssize_t at = 0; at < count; at++) {
        bytes[at] ^= 0x10;
        assert_null(archive_manifest_unpack(bytes, (size_t)count, &err));
        assert_null(archive_manifest_unpack(bytes, (size_t)at, &err));
        bytes[at] ^= 0x10;
    }
    close(fd);
    close(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_third_line),
        cmocka_unit_test(test_the_first_line_of_each_time),
        cmocka_unit_test(test_a_wrong_pace),
        cmocka_unit_test_setup_teardown(test_only_its_own_folders, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_line_without_its_last_file, setup, teardown),
        cmocka_unit_test(test_names_of_lines),
        cmocka_unit_test_setup_teardown(test_a_part_comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_stopped_part_leaves_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_damaged_part_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_manifest_comes_back, setup, teardown),
        cmocka_unit_test(test_a_manifest_that_makes_no_sense),
        cmocka_unit_test_setup_teardown(test_a_damaged_manifest_is_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
