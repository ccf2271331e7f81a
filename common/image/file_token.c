#include "common/image/file_token.h"

#include <elf.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define SEGMENTS_MAX 64   /* programs have about 13 */
#define NOTES_MAX 4096    /* bytes; about 100 */
#define PIECE_BYTES 16384 /* read at once */

static bool read_at(int fd, void *to, size_t bytes, uint64_t offset)
{
    return offset <= INT64_MAX && pread(fd, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

/* The build id among the notes in [at, at + bytes). */
static size_t find_build_id(const uint8_t *at, size_t bytes, uint8_t id[BUILD_ID_BYTES])
{
    while (bytes >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr note;
        memcpy(&note, at, sizeof note);
        size_t name = (note.n_namesz + 3ull) & ~3ull, description = (note.n_descsz + 3ull) & ~3ull;
        size_t whole = sizeof note + name + description;
        if (whole > bytes)
            return 0;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && !memcmp(at + sizeof note, "GNU", 4)) {
            size_t length = note.n_descsz < BUILD_ID_BYTES ? note.n_descsz : BUILD_ID_BYTES;
            memcpy(id, at + sizeof note + name, length);
            return length;
        }
        at += whole;
        bytes -= whole;
    }
    return 0;
}

size_t build_id_read(int fd, uint8_t id[BUILD_ID_BYTES])
{
    Elf64_Ehdr header;
    Elf64_Phdr segments[SEGMENTS_MAX];
    if (!read_at(fd, &header, sizeof header, 0) || memcmp(header.e_ident, ELFMAG, SELFMAG) ||
        header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof *segments ||
        header.e_phnum > SEGMENTS_MAX ||
        !read_at(fd, segments, header.e_phnum * sizeof *segments, header.e_phoff))
        return 0;
    for (int i = 0; i < header.e_phnum; i++) {
        uint8_t notes[NOTES_MAX];
        size_t bytes = segments[i].p_filesz, length;
        if (segments[i].p_type == PT_NOTE && bytes <= sizeof notes &&
            read_at(fd, notes, bytes, segments[i].p_offset) && (length = find_build_id(notes, bytes, id)) > 0)
            return length;
    }
    return 0;
}

/* FILE_TOKEN_NONE if the file has become shorter, or cannot be read. */
static uint64_t token_of_contents(int fd, uint64_t bytes)
{
    uint8_t piece[PIECE_BYTES];
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    for (uint64_t at = 0; at < bytes;) {
        size_t length = bytes - at < sizeof piece ? (size_t)(bytes - at) : sizeof piece;
        if (!read_at(fd, piece, length, at))
            return FILE_TOKEN_NONE;
        XXH3_64bits_update(&state, piece, length);
        at += length;
    }
    return XXH3_64bits_digest(&state);
}

uint64_t file_token(int fd, uint64_t limit, uint64_t *bytes_read)
{
    static const uint64_t build_id_seed = 1; /* no contents have the token of a build id */
    uint8_t id[BUILD_ID_BYTES];
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return FILE_TOKEN_NONE;
    size_t length = build_id_read(fd, id);
    if (length > 0)
        return XXH3_64bits_withSeed(id, length, build_id_seed);
    if ((uint64_t)st.st_size > limit)
        return FILE_TOKEN_NONE;
    *bytes_read += (uint64_t)st.st_size;
    return token_of_contents(fd, (uint64_t)st.st_size);
}
