/* identity.c - see identity.h. */
#include "mpi-layer/lower/identity.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/fnv1a.h"

#define TOKEN_BYTES 65

static void hex(const uint8_t *bytes, size_t count, char out[TOKEN_BYTES])
{
    if (count > (TOKEN_BYTES - 1) / 2)
        count = (TOKEN_BYTES - 1) / 2;
    for (size_t i = 0; i < count; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

/* The note NT_GNU_BUILD_ID among the notes in [at, at + bytes). */
static int find_build_id(const uint8_t *at, size_t bytes, char out[TOKEN_BYTES])
{
    while (bytes >= sizeof(Elf64_Nhdr)) {
        const Elf64_Nhdr *note = (const Elf64_Nhdr *)(const void *)at;
        size_t name = (note->n_namesz + 3u) & ~3ul, description = (note->n_descsz + 3u) & ~3ul;
        size_t whole = sizeof *note + name + description;
        if (name > bytes || description > bytes || whole > bytes)
            return -1;
        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && !memcmp(at + sizeof *note, "GNU", 4)) {
            hex(at + sizeof *note + name, note->n_descsz, out);
            return 0;
        }
        at += whole;
        bytes -= whole;
    }
    return -1;
}

static int build_id_of(const uint8_t *file, size_t bytes, char out[TOKEN_BYTES])
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)(const void *)file;
    if (bytes < sizeof *header || memcmp(header->e_ident, ELFMAG, SELFMAG) || header->e_phoff > bytes ||
        header->e_phnum > (bytes - header->e_phoff) / sizeof(Elf64_Phdr))
        return -1;
    const Elf64_Phdr *segments = (const Elf64_Phdr *)(const void *)(file + header->e_phoff);
    for (int i = 0; i < header->e_phnum; i++)
        if (segments[i].p_type == PT_NOTE && segments[i].p_offset <= bytes &&
            segments[i].p_filesz <= bytes - segments[i].p_offset &&
            !find_build_id(file + segments[i].p_offset, segments[i].p_filesz, out))
            return 0;
    return -1;
}

/* "build-id …" or "content …" of a file. */
static int token_of(const char *path, char token[TOKEN_BYTES + 16], struct belay_error *err)
{
    char id[TOKEN_BYTES];
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) {
        belay_error_errno(err, "cannot read %s", path);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    uint8_t *file = st.st_size ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    if (file == MAP_FAILED)
        return belay_error_set(err, ENOEXEC, "cannot map %s", path);
    if (!build_id_of(file, (size_t)st.st_size, id))
        snprintf(token, TOKEN_BYTES + 16, "build-id %.16s", id);
    else
        snprintf(token, TOKEN_BYTES + 16, "content %016lx",
                 (unsigned long)fnv1a(FNV1A_START, file, (size_t)st.st_size));
    munmap(file, (size_t)st.st_size);
    return 0;
}

int identity_of(const char *program, uint8_t digest[IDENTITY_BYTES], char *text, size_t text_bytes,
                struct belay_error *err)
{
    char program_token[TOKEN_BYTES + 16], libc_token[TOKEN_BYTES + 16], libc_path[PATH_MAX];
    Dl_info libc;
    if (!dladdr((void *)(uintptr_t)&malloc, &libc) || !realpath(libc.dli_fname, libc_path))
        return belay_error_set(err, ENOENT, "cannot find the C library's file");
    if (token_of(program, program_token, err) || token_of(libc_path, libc_token, err))
        return -1;
    snprintf(text, text_bytes, "%s (%s), libc %s (%s)", program, program_token, libc_path, libc_token);
    for (unsigned lane = 0; lane < IDENTITY_BYTES / 8; lane++) {
        uint64_t hash = fnv1a(FNV1A_START + lane, (const uint8_t *)program_token, strlen(program_token));
        hash = fnv1a(hash, (const uint8_t *)libc_token, strlen(libc_token) + 1);
        memcpy(digest + 8 * lane, &hash, 8);
    }
    return 0;
}
