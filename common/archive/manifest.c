#include "common/archive/manifest.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fault/fault.h"
#include "common/util/fnv1a.h"
#include "common/wire/job_name.h"
#include "common/wire/placement.h"
#include "common/wire/streams.h"

#define MAGIC 0x314e414d796c6542ull /* "BelyMAN1" */
#define VERSION 1u

struct header {
    uint64_t magic;
    uint32_t version;
    uint32_t length;   /* of what follows */
    uint64_t checksum; /* over the header before it, and what follows */
};

static uint64_t checksum(const struct header *header, const uint8_t *body)
{
    uint64_t sum = fnv1a(FNV1A_START, header, offsetof(struct header, checksum));
    return fnv1a(sum, body, header->length);
}

struct digest archive_part_root(const Belay__Wire__ArchivePart *part)
{
    struct digest root = {{0}};
    if (part->root.len == sizeof root)
        memcpy(&root, part->root.data, sizeof root);
    return root;
}

/* Each rank once, and behind them what groups of them share. */
static bool are_parts_sound(const Belay__Wire__ArchiveManifest *manifest)
{
    uint32_t ranks = manifest->ranks;
    if (manifest->n_parts < ranks || manifest->n_parts > 2u * (size_t)ranks)
        return false;
    for (size_t i = 0; i < manifest->n_parts; i++) {
        const Belay__Wire__ArchivePart *part = manifest->parts[i];
        bool is_rank = i < ranks;
        if (part->root.len != DIGEST_BYTES || part->n_streams != (is_rank ? ARCHIVE_STREAM_NUMBERS : 0) ||
            part->bytes == 0 || (is_rank && part->part != i) || part->part >= 2 * ranks ||
            (i > 0 && part->part <= manifest->parts[i - 1]->part))
            return false;
    }
    return true;
}

static bool is_job_sound(const Belay__Wire__JobOpen *job)
{
    return job && job->settings && job_name_is_valid(job->job) && job->node_count <= PLACEMENT_NODES_MAX &&
           job->n_host_names <= PLACEMENT_NODES_MAX && (!job->cwd[0] || job->cwd[0] == '/') &&
           (job->n_argv == 0 || job->argv[0][0]) &&
           (!job->undo || !job->undo->path[0] || job->undo->path[0] == '/');
}

int archive_manifest_check(const Belay__Wire__ArchiveManifest *manifest, struct belay_error *err)
{
    bool is_sound = is_job_sound(manifest->job) && manifest->line > 0 &&
                    manifest->last_line >= manifest->line && manifest->ranks > 0 &&
                    manifest->ranks <= STREAMS_MAX_RANKS && manifest->epoch > 0 &&
                    manifest->epoch <= ARCHIVE_EPOCH_MAX && manifest->n_nodes == manifest->ranks &&
                    manifest->n_processors == manifest->ranks && are_parts_sound(manifest);
    for (size_t i = 0; is_sound && i < manifest->n_nodes; i++)
        is_sound = manifest->nodes[i] < PLACEMENT_NODES_MAX;
    return is_sound ? 0 : belay_error_set(err, EBADMSG, "the archive's " ARCHIVE_MANIFEST " is damaged");
}

static int put(int fd, const uint8_t *bytes, size_t count)
{
    for (size_t at = 0; at < count;) {
        ssize_t got = write(fd, bytes + at, count - at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return -1;
        at += (size_t)got;
    }
    return 0;
}

int archive_manifest_write(int folder, const Belay__Wire__ArchiveManifest *manifest, struct belay_error *err)
{
    struct header header = {.magic = MAGIC, .version = VERSION};
    size_t length = belay__wire__archive_manifest__get_packed_size(manifest);
    if (length > ARCHIVE_MANIFEST_MAX_BYTES - sizeof header)
        return belay_error_set(err, EFBIG, "the archive's " ARCHIVE_MANIFEST " is too long");
    uint8_t *bytes = malloc(sizeof header + length);
    if (!bytes)
        return belay_error_set(err, ENOMEM, "no memory for the archive's " ARCHIVE_MANIFEST);
    header.length = (uint32_t)length;
    belay__wire__archive_manifest__pack(manifest, bytes + sizeof header);
    header.checksum = checksum(&header, bytes + sizeof header);
    memcpy(bytes, &header, sizeof header);
    int fd = archive_begin_file(folder, ARCHIVE_MANIFEST, err);
    int rc = fd < 0 ? -1 : put(fd, bytes, sizeof header + length);
    if (rc == 0 && fault_hit("arbiter.archive.manifest", -1, manifest->line)) {
        errno = EIO;
        rc = -1;
    }
    if (rc < 0 && fd >= 0) {
        belay_error_errno(err, "cannot write the archive's " ARCHIVE_MANIFEST);
        archive_drop_file(folder, ARCHIVE_MANIFEST, fd);
    }
    free(bytes);
    return rc < 0 ? -1 : archive_end_file(folder, ARCHIVE_MANIFEST, fd, err);
}

Belay__Wire__ArchiveManifest *archive_manifest_unpack(const uint8_t *bytes, size_t count,
                                                      struct belay_error *err)
{
    struct header header = {0};
    if (count >= sizeof header)
        memcpy(&header, bytes, sizeof header);
    if (header.magic == MAGIC && header.version != VERSION) {
        belay_error_set(err, EPROTO, "the archive was written by another version of Belay");
        return NULL;
    }
    belay_error_set(err, EBADMSG, "the archive's " ARCHIVE_MANIFEST " is damaged");
    if (header.magic != MAGIC || header.length != count - sizeof header ||
        header.checksum != checksum(&header, bytes + sizeof header))
        return NULL;
    Belay__Wire__ArchiveManifest *manifest =
        belay__wire__archive_manifest__unpack(NULL, header.length, bytes + sizeof header);
    if (manifest && archive_manifest_check(manifest, err) == 0)
        return manifest;
    archive_manifest_free(manifest);
    return NULL;
}

Belay__Wire__ArchiveManifest *archive_manifest_read(int folder, struct belay_error *err)
{
    uint64_t count = 0;
    Belay__Wire__ArchiveManifest *manifest = NULL;
    int fd = archive_open_file(folder, ARCHIVE_MANIFEST, ARCHIVE_MANIFEST_MAX_BYTES, &count, err);
    if (fd < 0)
        return NULL;
    uint8_t *bytes = malloc(count + 1);
    if (!bytes)
        belay_error_set(err, ENOMEM, "no memory for the archive's " ARCHIVE_MANIFEST);
    else if (read(fd, bytes, count) != (ssize_t)count)
        belay_error_set(err, EIO, "the archive's " ARCHIVE_MANIFEST " cannot be read");
    else
        manifest = archive_manifest_unpack(bytes, count, err);
    close(fd);
    free(bytes);
    return manifest;
}

void archive_manifest_free(Belay__Wire__ArchiveManifest *manifest)
{
    if (manifest)
        belay__wire__archive_manifest__free_unpacked(manifest, NULL);
}
