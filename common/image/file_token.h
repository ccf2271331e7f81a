/*
 * file_token.h - what a file contains, in 64 bits, so that the same file on another host is known although it
 * has another inode and other times. It detects accidents, it is no protection against forgery.
 */
#ifndef BELAY_COMMON_IMAGE_FILE_TOKEN_H
#define BELAY_COMMON_IMAGE_FILE_TOKEN_H

#include <stddef.h>
#include <stdint.h>

#define FILE_TOKEN_NONE 0u
#define BUILD_ID_BYTES 64

/*
 * The build id of an ELF file (note NT_GNU_BUILD_ID, see ld(1)). Returns how many bytes it has, at most
 * BUILD_ID_BYTES, or 0: it has none, or cannot be read. Uses pread() only: the file may change meanwhile.
 */
size_t build_id_read(int fd, uint8_t id[BUILD_ID_BYTES]);

/*
 * Over the build id of an ELF file, over the contents of another one of at most `limit` bytes. Adds what was
 * read of contents to *bytes_read. FILE_TOKEN_NONE: the file is longer, or cannot be read.
 */
uint64_t file_token(int fd, uint64_t limit, uint64_t *bytes_read);

#endif
