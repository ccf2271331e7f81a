/* identity.c - see identity.h. */
#include "mpi-layer/lower/identity.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/image/file_token.h"
#include "common/util/fnv1a.h"

#define TOKEN_BYTES 65

static void hex(const uint8_t *bytes, size_t count, char out[TOKEN_BYTES])
{
    if (count > (TOKEN_BYTES - 1) / 2)
        count = (TOKEN_BYTES - 1) / 2;
    for (size_t i = 0; i < count; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

/* "build-id …" or "content …" of a file. */
static int token_of(const char *path, char token[TOKEN_BYTES + 16], struct belay_error *err)
{
    uint8_t id[BUILD_ID_BYTES];
    char id_text[TOKEN_BYTES];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return belay_error_errno(err, "cannot read %s", path);
    size_t id_bytes = build_id_read(fd, id);
    if (id_bytes > 0) {
        close(fd);
        hex(id, id_bytes, id_text);
        snprintf(token, TOKEN_BYTES + 16, "build-id %.16s", id_text);
        return 0;
    }
    uint64_t read_bytes = 0, content = file_token(fd, UINT64_MAX, &read_bytes);
    close(fd);
    if (content == FILE_TOKEN_NONE)
        return belay_error_set(err, ENOEXEC, "cannot read %s", path);
    snprintf(token, TOKEN_BYTES + 16, "content %016lx", (unsigned long)content);
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
